"""A sandbox that hides its growth behind many files is found at once, not when its turn comes."""

from __future__ import annotations

from pathlib import Path

from agents.harness.sandbox.base import Exit, ExitCause, Limits
from agents.harness.sandbox.client import Sandbox, SandboxServer
from agents.harness.sandbox.usage import Usage
from agents.harness.sandbox.watch import Growth, Schedule, Watch
from tests.security.hostile import MIB, prepare
from tests.support.waiting import wait_for

NEVER = float("inf")


class Late(Watch):
    """For whom each measurement has taken so long that the next is due in years."""

    num_measured = 0

    def measure(self, sandbox: Sandbox, schedule: Schedule) -> ExitCause | None:
        self.num_measured += 1
        found = super().measure(sandbox, schedule)
        schedule.due = NEVER
        return found


def test_growth_of_the_file_system_brings_a_measurement_that_is_not_due(tmp_path: Path) -> None:
    server = SandboxServer()
    attack = prepare(server, tmp_path)
    program = """
        import os, time
        while not os.path.exists("/app/go"):
            time.sleep(0.01)
        for number in range(4):
            with open(f"/app/{number}", "wb") as file:
                file.write(bytes(10 << 20))
        time.sleep(1000)
    """
    sandbox = attack.start(program, Limits(disk_bytes=100 * MIB))
    sandbox.wait_started(60)
    watch = Late(server)
    watch.tick()
    assert watch.num_measured == 1
    watch.tick()
    assert watch.num_measured == 1
    server.end(sandbox)
    sandbox = attack.start(program, Limits(disk_bytes=20 * MIB))
    sandbox.wait_started(60)
    watch.tick()
    (attack.workspace.root / "app" / "go").touch()

    def stopped() -> bool:
        watch.tick()
        return sandbox.stopped_by is not None

    wait_for(stopped, "the watch stops it")
    assert sandbox.wait(60) == Exit(137, "disk")
    server.close()


def test_what_is_freed_meanwhile_does_not_hide_growth(tmp_path: Path) -> None:
    growth, place = Growth(), tmp_path / "big"
    growth.measure(str(tmp_path))
    for _ in range(2):
        place.write_bytes(bytes(32 * MIB))
        growth.measure(str(tmp_path))
        place.unlink()
        growth.measure(str(tmp_path))
    assert growth.num_bytes >= 60 * MIB


def test_a_measurement_of_a_large_tree_rests_long_unless_the_file_system_grew() -> None:
    usage = Usage(1000)
    usage.num_bytes, usage.num_files = 60 * MIB, 900
    schedule, limits = Schedule(), Limits(disk_bytes=100 * MIB, files=1000)
    schedule.measured(11.0, 1.0, limits, usage, Growth(5 * MIB, 50))
    assert not schedule.is_due(20.0, Growth(44 * MIB, 149))
    assert schedule.is_due(20.0, Growth(45 * MIB, 50))
    assert schedule.is_due(20.0, Growth(5 * MIB, 150))
    assert not schedule.is_due(12.0, Growth(45 * MIB, 150))
    assert schedule.is_due(61.0, Growth(5 * MIB, 50))
