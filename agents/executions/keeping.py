"""What an attempt left is kept before its evaluator sees it, so that it can be assessed again as it was.

One archive per execution, of its newest attempt, on the machine that evaluated it. Where there is none, its row says
why. Keeping never costs an execution: whatever goes wrong becomes that reason.
"""

from __future__ import annotations

import logging
import shutil
import socket
import time
from pathlib import Path

from django.db import connection
from django.utils import timezone

from agents.config import AgentSettings
from agents.executions import lease_rows
from agents.executions.leases import Lease, brief_connection, persistently
from agents.harness.sandbox.archive import TooLarge, pack
from agents.harness.sandbox.workspace import Workspace
from agents.models import KeptWorkspace

log = logging.getLogger(__name__)

#: Below this much room on the disk nothing more is kept: executions need it.
MIN_FREE_BYTES = 2 << 30
#: Its row may still be on the way for so long after a file is written.
ORPHAN_S = 3600.0


def folder(home: Path, run_id: int) -> Path:
    return home / "runs" / str(run_id) / "workspaces"


def keep(home: Path, lease: Lease, workspace: Workspace) -> None:
    """Archive the workspace and record it as a row. Does nothing when this attempt has its row already."""
    if lease.config.retain_workspaces == 0:
        return
    known = lease.kept
    if known is not None and known.attempt == lease.attempt:
        return  # an evaluator that died may have changed the files since
    target = folder(home, lease.run_id) / f"{lease.execution_id}-{lease.attempt}.tar.zst"
    problem = _pack(home, lease.config, workspace, target)
    found = {
        "execution": lease.execution_id,
        "attempt": lease.attempt,
        "host": socket.gethostname(),
        "path": "" if problem else str(target),
        "num_bytes": 0 if problem else target.stat().st_size,
        "problem": problem,
    }
    persistently(lambda: _write(found))
    if known is not None and known.path:
        Path(known.path).unlink(missing_ok=True)


def _write(found: dict[str, object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(lease_rows.KEPT, found)


def _pack(home: Path, config: AgentSettings, workspace: Workspace, target: Path) -> str:
    """Why nothing was kept; empty when it was."""
    if not workspace.root.is_dir():
        return "its file tree was gone when its evaluation began"
    free = shutil.disk_usage(home).free
    if free < MIN_FREE_BYTES:
        return f"the disk was nearly full: {free >> 20} MB free, {MIN_FREE_BYTES >> 20} MB needed"
    try:
        pack(workspace, target, min(config.retain_workspace_mb * 1e6, free - MIN_FREE_BYTES))
    except TooLarge as error:
        limit = f"retain_workspace_mb {config.retain_workspace_mb:g}"
        return f"it holds {error}, more than {limit} or the free space allows"
    except (OSError, ValueError) as error:
        log.warning("execution files at %s could not be kept: %s", workspace.path, error)
        return f"it could not be read: {error}"[:500]
    return ""


def clear_orphans(home: Path) -> int:
    """Delete archives that no row knows: their run was deleted, or a worker died between file and row."""
    with brief_connection():
        known = set(KeptWorkspace.objects.filter(deleted_at=None).exclude(path="").values_list("path", flat=True))
    before = time.time() - ORPHAN_S
    found = [path for path in home.glob("runs/*/workspaces/*") if str(path) not in known]
    orphans = [path for path in found if path.stat().st_mtime < before]
    for path in orphans:
        path.unlink(missing_ok=True)
    return len(orphans)


def make_room(home: Path, wanted_bytes: int) -> int:
    """Delete the oldest archives of this machine until so much is free; returns how many. Executions come first."""
    num = 0
    with brief_connection():
        rows = KeptWorkspace.objects.filter(deleted_at=None, host=socket.gethostname()).exclude(path="")
        for row in rows.order_by("created_at").iterator():
            if shutil.disk_usage(home).free >= wanted_bytes:
                break
            Path(row.path).unlink(missing_ok=True)
            row.deleted_at, row.problem = timezone.now(), "it was deleted when the disk was full"
            row.save(update_fields=["deleted_at", "problem"])
            num += 1
    return num
