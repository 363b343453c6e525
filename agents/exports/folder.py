"""An export as a directory: parts of each table, and a manifest that says what they are and proves them whole.

Parts are written under a passing name and renamed; the manifest is replaced after each round of parts. So an
interrupted export goes on where it stopped, and a directory is complete exactly when its manifest says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from django.utils import timezone

from agents.exports import rows as sources
from agents.exports.formats import WRITERS, read
from agents.exports.manifest import MAX_BYTES, problems
from agents.exports.tables import FORMAT_VERSION, TABLES
from agents.models import Run
from agents.web.executions import Filters

MANIFEST = "manifest.json"
#: Pages of executions (agents.exports.rows) in one round of parts.
PAGES_PER_PART = 5
#: Problems of a manifest that a message names.
SHOWN = 5

Progress = Callable[[int, int], None]


class BadExport(Exception):
    """A directory that cannot be written to or read from. The message says why and what to do."""


def write(run: Run, folder: Path, extension: str, filters: Filters, progress: Progress) -> dict[str, Any]:
    """Export the run to `folder`; goes on with what stands there of the same export. Returns the manifest.

    `progress(done, total)` counts executions. Raises BadExport, OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    manifest = _started(run, folder, extension, filters)
    if manifest["complete"]:
        return manifest
    total = sources.ended(run, filters).count()
    done = manifest["num_executions"]
    progress(done, total)
    round_of_pages: list[sources.Page] = []

    def finish_round() -> None:
        nonlocal done
        manifest["num_parts"] += 1
        for name, table_rows in _rows_of(round_of_pages):
            _write_part(folder, manifest, name, extension, table_rows)
        manifest["last_execution"] = round_of_pages[-1].ids[-1]
        manifest["num_executions"] = done = done + sum(len(page.executions) for page in round_of_pages)
        _save(folder, manifest)
        round_of_pages.clear()
        progress(done, max(total, done))

    for page in sources.pages(run, filters, manifest["last_execution"]):
        round_of_pages.append(page)
        if len(round_of_pages) == PAGES_PER_PART:
            finish_round()
    if round_of_pages:
        finish_round()
    for name, of_run in sources.OF_RUN.items():
        _write_part(folder, manifest, name, extension, of_run(run, filters))
    manifest |= {"complete": True, "finished_at": timezone.now().isoformat(), "run": facts_of(run)}
    _save(folder, manifest)
    return manifest


def facts_of(run: Run) -> dict[str, Any]:
    """What a manifest says of the run itself."""
    return {
        "id": run.pk,
        "name": run.name,
        "project": run.project.slug,
        "task_set": {"name": run.task_set.name, "digest": run.task_set.digest},
        "preset": run.preset,
        "state": run.state,
        "state_reason": run.state_reason,
        "config": run.config,
        "config_version": run.config_version,
        "seed": run.seed,
        "policy_kind": run.policy_kind,
        "version": run.version,
        "created_at": run.created_at.isoformat(),
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
    }


def load(folder: Path) -> dict[str, Any]:
    """The manifest of a complete export whose files are what it says. Raises BadExport."""
    manifest = _read_manifest(folder)
    if manifest is None:
        raise BadExport(f"{folder} holds no export: there is no {MANIFEST}, or it is no plain file")
    if manifest.get("format_version") != FORMAT_VERSION:
        found = manifest.get("format_version")
        raise BadExport(f"{folder} has format version {found}; this version of Gyre reads {FORMAT_VERSION}")
    if manifest.get("complete") is False:
        raise BadExport(f"the export in {folder} is not complete; run the same `manage.py export` again to finish it")
    if wrong := problems(manifest):
        more = f" (and {len(wrong) - SHOWN} more)" if len(wrong) > SHOWN else ""
        raise BadExport(f"the manifest of {folder} cannot be used: {'; '.join(wrong[:SHOWN])}{more}")
    for name, fact in manifest["files"].items():
        with _part(folder, name) as file:
            if os.fstat(file.fileno()).st_size != fact["bytes"]:
                raise BadExport(f"{folder / name} is not the file that was exported: its size differs")
            if hashlib.file_digest(file, "sha256").hexdigest() != fact["sha256"]:
                raise BadExport(f"{folder / name} is not the file that was exported: its SHA-256 differs")
    return manifest


def table_rows(folder: Path, manifest: dict[str, Any], table: str) -> Iterator[dict[str, Any]]:
    """All rows of a table, in the order in which they were written. Raises BadExport for damaged content."""
    for name in sorted(name for name, fact in manifest["files"].items() if fact["table"] == table):
        count = 0
        with _part(folder, name) as file:
            try:
                for row in read(TABLES[table], file, name):
                    count += 1
                    yield row
            except ValueError as error:
                raise BadExport(f"{folder / name}: {error}") from error
        if count != manifest["files"][name]["rows"]:
            raise BadExport(f"{folder / name} has {count} rows; the manifest says {manifest['files'][name]['rows']}")


def _part(folder: Path, name: str) -> BufferedReader:
    """A file of an export, open; no link is followed on the way, so nothing beside the folder is read."""
    return _plain_file(folder, name) or _missing(folder / name)


def _missing(path: Path) -> NoReturn:
    raise BadExport(f"{path} is missing, or it is no plain file of the export")


def _plain_file(folder: Path, name: str) -> BufferedReader | None:
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    *places, last = name.split("/")
    try:
        for place in places:
            inner = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inner
        number = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        return None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None
    return os.fdopen(number, "rb")


def _started(run: Run, folder: Path, extension: str, filters: Filters) -> dict[str, Any]:
    wanted = {"source": f"run {run.pk} of project {run.project.slug}", "extension": extension,
              "filters": asdict(filters)}  # fmt: skip
    found = _read_manifest(folder)
    if found is not None:
        if {name: found.get(name) for name in wanted} != wanted or found.get("format_version") != FORMAT_VERSION:
            raise BadExport(
                f"{folder} holds another export ({found.get('source')}, {found.get('extension')}); choose an empty "
                "directory, or repeat the command that began it"
            )
        return found
    if any(folder.iterdir()):
        raise BadExport(f"{folder} is not empty and holds no export; choose an empty directory")
    fresh: dict[str, Any] = {
        "format": "gyre-export", "format_version": FORMAT_VERSION, **wanted, "complete": False,
        "started_at": timezone.now().isoformat(), "num_executions": 0, "num_parts": 0, "last_execution": 0,
        "rows": dict.fromkeys(TABLES, 0), "files": {},
    }  # fmt: skip
    _save(folder, fresh)
    return fresh


def _rows_of(round_of_pages: list[sources.Page]) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    for name, of_page in sources.BY_EXECUTION.items():
        yield name, (row for page in round_of_pages for row in of_page(page))


def _write_part(
    folder: Path, manifest: dict[str, Any], table: str, extension: str, table_rows: Iterator[dict[str, Any]]
) -> None:
    name = f"{table}/part-{manifest['num_parts']:05d}.{extension}"
    path = folder / name
    fresh = path.with_name(path.name + ".new")
    path.parent.mkdir(exist_ok=True)
    count, digest = 0, hashlib.sha256()
    with ExitStack() as stack:
        file = stack.enter_context(fresh.open("wb"))

        def sink(piece: bytes) -> None:
            digest.update(piece)
            file.write(piece)

        writer = WRITERS[extension](TABLES[table], sink)
        for row in table_rows:
            writer.write(row)
            count += 1
        writer.close()
        file.flush()
        os.fsync(file.fileno())
    if not count:
        fresh.unlink()
        return
    fresh.replace(path)
    manifest["files"][name] = {"table": table, "rows": count, "bytes": path.stat().st_size,
                               "sha256": digest.hexdigest()}  # fmt: skip
    manifest["rows"][table] = sum(fact["rows"] for fact in manifest["files"].values() if fact["table"] == table)


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    if not folder.is_dir() or (file := _plain_file(folder, MANIFEST)) is None:
        return None
    with file:
        raw = file.read(MAX_BYTES + 1)
    try:
        found = json.loads(raw.decode()) if len(raw) <= MAX_BYTES else None
    except (ValueError, RecursionError) as error:
        raise BadExport(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("format") != "gyre-export":
        raise BadExport(f"{path} is not the manifest of an export")
    return found


def _save(folder: Path, manifest: dict[str, Any]) -> None:
    fresh = folder / (MANIFEST + ".new")
    fresh.write_text(json.dumps(manifest, indent=1) + "\n")
    fresh.replace(folder / MANIFEST)
