"""Which cell gets a call."""

from agents.proxy.router import AVOID_S, Router, Waiter
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


async def test_an_execution_keeps_its_cell_and_a_new_one_gets_the_emptiest() -> None:
    router = Router()
    router.update([_cell(1), _cell(2)])
    router.take(router.cells[1])
    assert (_picked(router, sticky=1), _picked(router)) == (1, 2)
    router.take(router.cells[1])
    assert _picked(router, sticky=1) == 2


async def test_equally_empty_cells_take_turns() -> None:
    router = Router()
    router.update([_cell(1), _cell(2)])
    order = []
    for _ in range(4):
        order.append(_picked(router))
        router.take(router.cells[order[-1]])
        router.give_back(router.cells[order[-1]])
    assert order == [1, 2, 1, 2]


async def test_cells_of_other_runs_of_evaluations_and_in_a_switch_get_nothing() -> None:
    router = Router()
    router.update([_cell(1, run_id=2), _cell(2, evaluation=7), _cell(3, routable=False)])
    assert _picked(router) is None
    assert _picked(router, evaluation=7) == 2


async def test_a_failed_engine_is_passed_over_for_a_while_even_by_its_own_executions() -> None:
    router = Router()
    router.update([_cell(1)])
    router.avoid(1, now=0.0)
    assert _picked(router, sticky=1) is None
    assert router.pick(1, None, 2, 1, now=AVOID_S) is not None


def _enter(router: Router, execution: int, limit: int = 1) -> Waiter:
    return router.enter(1, None, execution, limit, None)


async def test_a_waiting_call_gets_its_cell_when_the_table_changes_or_a_call_ends() -> None:
    router = Router()
    first, second = _enter(router, 1), _enter(router, 1)
    assert not first.cell.done()
    router.update([_cell(1)])
    assert (first.cell.result().id, second.cell.done(), router.num_waiting) == (1, False, 1)
    router.give_back(first.cell.result())
    assert (second.cell.result().id, router.num_waiting) == (1, 0)


async def test_room_goes_to_waiting_executions_in_turn_and_to_each_ones_oldest_call_first() -> None:
    router = Router()
    router.update([_cell(1)])
    out = _enter(router, 0).cell.result()
    waiting = [
        ("a1", _enter(router, 1)),
        ("a2", _enter(router, 1)),
        ("a3", _enter(router, 1)),
        ("b1", _enter(router, 2)),
    ]
    order: list[str] = []
    while len(order) < len(waiting):
        router.give_back(out)
        [(name, waiter)] = [(n, w) for n, w in waiting if w.cell.done() and n not in order]
        order.append(name)
        out = waiter.cell.result()
    assert order == ["a1", "b1", "a2", "a3"]


async def test_no_call_overtakes_those_that_wait() -> None:
    router = Router()
    router.update([_cell(1)])
    out, waiting = _enter(router, 1).cell.result(), _enter(router, 2)
    late = _enter(router, 3)
    router.give_back(out)
    assert (waiting.cell.done(), late.cell.done()) == (True, False)


async def test_a_call_that_gives_up_waiting_leaves_its_place_and_gives_a_cell_back() -> None:
    router = Router()
    router.update([_cell(1)])
    out, second, third = _enter(router, 1).cell.result(), _enter(router, 2), _enter(router, 3)
    router.leave(second)
    router.give_back(out)
    assert third.cell.done()
    router.leave(third)
    assert (router.num_calls[1], router.num_waiting) == (0, 0)


async def test_several_proxies_share_the_room_of_a_cell() -> None:
    router = Router()
    router.update([_cell(1)], num_proxies=3)
    assert [_enter(router, n, limit=4).cell.done() for n in range(3)] == [True, True, False]
    router.update([_cell(1)], num_proxies=1)
    assert router.num_waiting == 0


async def test_calls_at_an_engine_that_vanishes_or_starts_again_are_told_to_leave_it() -> None:
    router, left = Router(), []
    router.update([_cell(1), _cell(2)])
    router.at_work(1, lambda: left.append("gone"))
    router.at_work(2, lambda: left.append("started again"))
    router.update([_cell(1, routable=False), _cell(2)])
    assert left == []
    router.update([_cell(2, epoch=2)])
    assert sorted(left) == ["gone", "started again"]
