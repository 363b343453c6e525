"""Which cell gets a call."""

import asyncio

from agents.proxy.router import AVOID_S, Router
from agents.proxy.store import CellRow


def _cell(id: int, **fields) -> CellRow:
    defaults = {
        "run_id": 1, "index": id, "epoch": 1, "engine_url": f"http://e{id}", "engine_key": "", "weight_version": 0,
        "weight_hash": "", "evaluation": None, "routable": True,
    }  # fmt: skip
    return CellRow(id=id, **(defaults | fields))


def _picked(router: Router, sticky: int | None = None, evaluation: int | None = None, limit: int = 2) -> int | None:
    cell = router.pick(1, evaluation, limit, sticky, now=0.0)
    return None if cell is None else cell.id


def test_an_execution_keeps_its_cell_and_a_new_one_gets_the_emptiest() -> None:
    router = Router()
    router.update([_cell(1), _cell(2)])
    router.take(router.cells[1])
    assert (_picked(router, sticky=1), _picked(router)) == (1, 2)
    router.take(router.cells[1])
    assert _picked(router, sticky=1) == 2


def test_equally_empty_cells_take_turns() -> None:
    router = Router()
    router.update([_cell(1), _cell(2)])
    order = []
    for _ in range(4):
        order.append(_picked(router))
        router.take(router.cells[order[-1]])
        router.give_back(router.cells[order[-1]])
    assert order == [1, 2, 1, 2]


def test_cells_of_other_runs_of_evaluations_and_in_a_switch_get_nothing() -> None:
    router = Router()
    router.update([_cell(1, run_id=2), _cell(2, evaluation=7), _cell(3, routable=False)])
    assert _picked(router) is None
    assert _picked(router, evaluation=7) == 2


def test_a_failed_engine_is_passed_over_for_a_while_even_by_its_own_executions() -> None:
    router = Router()
    router.update([_cell(1)])
    router.avoid(1, now=0.0)
    assert _picked(router, sticky=1) is None
    assert router.pick(1, None, 2, 1, now=AVOID_S) is not None


async def test_a_waiting_call_wakes_when_the_table_changes_or_a_call_ends() -> None:
    router = Router()
    for change in (lambda: router.update([_cell(1)]), lambda: router.give_back(router.cells[1])):
        waiting = asyncio.create_task(router.changed(60.0, 0.0))
        await asyncio.sleep(0)
        change()
        await waiting
