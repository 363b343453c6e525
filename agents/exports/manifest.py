"""What a manifest must say before an export is believed: all of it, in bounds, and no files but the export's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from agents.config import CONFIG_VERSION, MAX_SEED, BadConfig
from agents.core.bounds import MAX_COUNT, storable
from agents.exports.tables import TABLES
from agents.whole_config import parse

#: Bytes of a manifest: it holds the settings and a line for each file.
MAX_BYTES = 64 << 20
_FILE = re.compile(rf"({'|'.join(TABLES)})/part-[0-9]{{5,9}}\.(parquet|jsonl)")


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    return text


def _storable(text: str) -> str:
    if storable(text) != text:
        raise ValueError("it holds characters that a database does not keep")
    return text


Name = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(_plain)]
Slug = Annotated[str, Field(pattern=r"^[-a-zA-Z0-9_]{1,64}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Long = Annotated[int, Field(ge=0, le=2**63 - 1)]
if TYPE_CHECKING:  # which tables there are is known at run time only
    TableName = str
else:
    TableName = Literal[tuple(TABLES)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)


class TaskSetFacts(_Part):
    name: Slug
    digest: Sha256


class RunFacts(_Part):
    id: Long
    name: Name
    project: Slug
    task_set: TaskSetFacts
    preset: Annotated[str, Field(max_length=64), AfterValidator(_plain)]
    state: Annotated[str, Field(max_length=10)]
    state_reason: Annotated[str, Field(max_length=100_000), AfterValidator(_storable)]
    config: dict[str, Any]
    config_version: int
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]
    policy_kind: Annotated[str, Field(max_length=20)]
    version: Count
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None


class FileFacts(_Part):
    table: TableName
    rows: Count
    bytes: Long
    sha256: Sha256


class Manifest(_Part):
    format: Literal["gyre-export"]
    format_version: int
    source: Name
    extension: Literal["parquet", "jsonl"]
    filters: dict[str, Any]
    complete: Literal[True]
    started_at: AwareDatetime
    finished_at: AwareDatetime
    num_executions: Count
    num_parts: Count
    last_execution: Long
    rows: dict[TableName, Long]
    files: dict[str, FileFacts]
    run: RunFacts


def problems(found: dict[str, Any]) -> list[str]:
    """Why the manifest of a complete export cannot be believed; empty when it can."""
    try:
        manifest = Manifest.model_validate(found)
    except ValidationError as error:
        return [f"{'.'.join(map(str, item['loc']))[:120]}: {item['msg']}" for item in error.errors()]
    wrong = [
        f"files: {name[:120]!r} is not a part of a table"
        for name, fact in manifest.files.items()
        if not (match := _FILE.fullmatch(name)) or (match[1], match[2]) != (fact.table, manifest.extension)
    ]
    for table in TABLES:
        rows = sum(fact.rows for fact in manifest.files.values() if fact.table == table)
        if manifest.rows.get(table, 0) != rows:
            wrong.append(f"rows: {manifest.rows.get(table, 0)} {table}, but the files have {rows}")
    return wrong + _of_settings(manifest.run)


def _of_settings(run: RunFacts) -> list[str]:
    if run.config_version != CONFIG_VERSION:
        return [f"run.config_version is {run.config_version}; this version of Gyre reads {CONFIG_VERSION}"]
    try:
        policy_kind = parse(run.config).model_dump()["policy_kind"]
    except BadConfig as error:
        return [f"run.config.{name}: {why}" for name, why in error.problems.items()]
    if run.policy_kind != policy_kind:
        return [f"run.policy_kind is {run.policy_kind!r}, but its settings say {policy_kind!r}"]
    return []
