"""npm and pip as they come: what is run, and the checksums that they verified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from agents.harness.install.recipe import InstallError, Recipe

#: Longest time that a client may take, in seconds.
LIMIT_S = 3600.0
_PIP_REPORT = "pip-report.json"


def run(recipe: Recipe, folder: Path, lock: int, beat: Callable[[], None]) -> None:
    """Run the client in `folder`; `beat` is called about once a second. Raises InstallError with what it said.

    The client holds `lock` too: where its installer dies it may go on, and the next one waits for it.
    """
    command = _npm(recipe, folder) if recipe.client == "npm" else _pip(recipe, folder)
    log, scratch = folder / "install.log", folder / "tmp"
    scratch.mkdir(exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock],
            umask=0o022,
        )
        try:
            code = _wait(process, beat)
        except BaseException:
            process.kill()
            process.wait()
            raise
    shutil.rmtree(scratch, ignore_errors=True)
    if code != 0:
        said = "\n".join(log.read_text(errors="replace").strip().splitlines()[-8:])
        raise InstallError(
            f"{recipe.client} could not install {recipe.harness} {recipe.version} (exit code {code}):\n{said}\n"
            f"It goes on where it stopped: .venv/bin/python manage.py install_harness {recipe.harness}"
        )


def checksums(recipe: Recipe, folder: Path) -> Mapping[str, str]:
    """package@version → checksum, of everything that was installed."""
    return _npm_checksums(folder) if recipe.client == "npm" else _pip_checksums(folder)


def _wait(process: subprocess.Popen[bytes], beat: Callable[[], None]) -> int:
    for _ in range(int(LIMIT_S)):
        try:
            return process.wait(1.0)
        except subprocess.TimeoutExpired:
            beat()
    raise InstallError(f"the installation took longer than {LIMIT_S:g} s; start it again and it goes on")


def require(recipe: Recipe) -> None:
    """Raises InstallError when the client is missing."""
    if recipe.client == "npm" and shutil.which("npm") is None:
        raise InstallError(
            f"npm is needed to install {recipe.harness} and is not there. Run: apt-get install -y nodejs npm"
        )


def _npm(recipe: Recipe, folder: Path) -> list[str]:
    return [
        "npm", "install", "--prefix", ".", "--cache", f"{folder}.npm", "--ignore-scripts", "--no-audit", "--no-fund",
        "--no-update-notifier", "--omit=dev", "--save-exact", "--fetch-retries=5", "--loglevel=error",
        *(f"{name}@{version}" for name, version in recipe.packages.items()),
    ]  # fmt: skip


def _npm_checksums(folder: Path) -> dict[str, str]:
    lock = json.loads((folder / "package-lock.json").read_text())
    return {
        f"{path.rpartition('node_modules/')[2]}@{entry['version']}": entry["integrity"]
        for path, entry in lock["packages"].items()
        if path and "integrity" in entry and (folder / path).is_dir()
    }


def _pip(recipe: Recipe, folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--upgrade",
        "--cache-dir", f"{folder}.pip", "--target", os.fspath(folder / "packages"), "--report", _PIP_REPORT,
        *(f"{name}=={version}" for name, version in recipe.packages.items()),
    ]  # fmt: skip


def _pip_checksums(folder: Path) -> dict[str, str]:
    """From pip's report: `hashes`, or `hash` before pip 23.1 (the pip of Debian 12)."""
    report = json.loads((folder / _PIP_REPORT).read_text())
    found = {}
    for item in report["install"]:
        name = f"{item['metadata']['name']}@{item['metadata']['version']}"
        archive = item.get("download_info", {}).get("archive_info", {})
        hashes = archive.get("hashes") or dict([archive["hash"].split("=", 1)] if "hash" in archive else [])
        found[name] = next((f"{kind}:{value}" for kind, value in sorted(hashes.items(), reverse=True)), "")
    return found
