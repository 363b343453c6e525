"""Which decisions get a row: everything that moves something, launches by the wave, refusals when they are new."""

from dataclasses import replace

from scheduler.core.decisions import Decision, Kind, Launch
from scheduler.core.recorder import Recorder

STAYS = Decision(Kind.LEAVE_ROLLOUT, False, "capacity", "the core stays: 97 are owed", 0)
LAUNCH = Decision(Kind.LAUNCH, True, "room", "launches 3", params=Launch(3))
LEAVES = Decision(Kind.LEAVE_ROLLOUT, True, "supply", "the core leaves rollout", 0)


def test_a_refusal_that_repeats_with_other_numbers_is_stored_once() -> None:
    recorder = Recorder()
    assert recorder.worth_storing([STAYS], 0.0) == [STAYS]
    assert recorder.worth_storing([replace(STAYS, reason="the core stays: 96 are owed")], 100.0) == []


def test_a_refusal_that_comes_and_goes_is_stored_once_in_a_while() -> None:
    recorder = Recorder()
    stored = [recorder.worth_storing([STAYS] if tick % 2 else [], float(tick)) for tick in range(1, 12)]
    assert [tick for tick, rows in enumerate(stored, start=1) if rows] == [1, 7]


def test_a_refusal_is_stored_again_after_its_cell_has_moved() -> None:
    recorder = Recorder()
    recorder.worth_storing([STAYS], 0.0)
    recorder.worth_storing([LEAVES], 0.2)
    assert recorder.worth_storing([STAYS], 0.4) == [STAYS]


def test_a_refusal_for_another_reason_is_stored() -> None:
    recorder = Recorder()
    recorder.worth_storing([STAYS], 0.0)
    other = replace(STAYS, reason_code="supply_short")
    assert recorder.worth_storing([other], 0.2) == [other]


def test_a_wave_of_launches_gets_a_row_every_two_seconds() -> None:
    recorder = Recorder()
    stored = [recorder.worth_storing([LAUNCH], tick * 0.2) for tick in range(21)]
    assert [tick for tick, rows in enumerate(stored) if rows] == [0, 10, 20]


def test_every_move_gets_a_row() -> None:
    recorder = Recorder()
    assert recorder.worth_storing([LEAVES], 0.0) == [LEAVES]
    assert recorder.worth_storing([LEAVES], 0.1) == [LEAVES]
