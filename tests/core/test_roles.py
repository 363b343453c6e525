"""agents.core.roles: an order of classes is a ranking, and auxiliary calls have no rank (docs/algorithms.md §4)."""

import pytest

from agents.core.roles import DEFAULT_ORDER, Role, ranks


def test_the_default_order_is_main_then_its_summary_then_sub_agents() -> None:
    assert ranks(DEFAULT_ORDER) == {Role.MAIN: 0, Role.MAIN_SUMMARY: 1, Role.SUB_AGENT: 2, Role.SUB_AGENT_SUMMARY: 3}


def test_a_profile_may_bring_its_own_classes() -> None:
    assert ranks(["planner", "main"])["planner"] < ranks(["planner", "main"])["main"]


@pytest.mark.parametrize(("order", "message"), [(["main", "main"], "twice"), (["main", "auxiliary"], "never selected")])
def test_an_order_that_ranks_nothing_is_refused(order: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ranks(order)
