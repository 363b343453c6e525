"""agents.core.selection against a literal, token-by-token reading of docs/algorithms.md §7."""

from dataclasses import replace

import pytest
from forests import MadeCall, executions, fold, trie
from hypothesis import given
from hypothesis import strategies as st

from agents.core import draws
from agents.core.roles import DEFAULT_ORDER, Role
from agents.core.selection import Bounds, CallFacts, Excluded, Selection, find_leaves, select

SEED = draws.selection_seed(1, 2, 3, 1)
WIDE = Bounds(j_max=5, context_tokens=1000, order=DEFAULT_ORDER)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[MadeCall], dict[int, CallFacts], Bounds]:
    calls = draw(executions())
    facts = {
        call.number: CallFacts(
            role=draw(st.sampled_from([*Role, "planner"])),
            acknowledged=draw(st.sampled_from([True, True, False])),
            quarantined=not call.trained,
        )
        for call in calls
    }
    return calls, facts, Bounds(draw(st.integers(1, 4)), draw(st.integers(1, 14)), DEFAULT_ORDER)


def starts_with(path: tuple[int, ...], prefix: tuple[int, ...]) -> bool:
    return path[: len(prefix)] == prefix


def leaves_by_hand(calls: list[MadeCall], facts: dict[int, CallFacts], bounds: Bounds) -> list[int]:
    def eligible(call: MadeCall) -> bool:
        fact = facts[call.number]
        seen = fact.acknowledged or any(
            later.number > call.number
            and facts[later.number].role != Role.AUXILIARY
            and starts_with(later.input_ids, call.path)
            for later in calls
        )
        known = fact.role in bounds.order and not fact.quarantined
        return known and seen and len(call.path) <= bounds.context_tokens

    def rank(call: MadeCall) -> int:
        return bounds.order.index(facts[call.number].role)

    able = [call for call in calls if eligible(call)]
    return [
        call.number
        for call in able
        if not any(
            starts_with(other.path, call.path)
            and (
                (len(other.path) > len(call.path) and rank(other) <= rank(call))
                or (other.path == call.path and (rank(other), other.number) < (rank(call), call.number))
            )
            for other in able
        )
    ]


def select_by_hand(calls: list[MadeCall], facts: dict[int, CallFacts], bounds: Bounds, seed: str) -> list[tuple]:
    """[(call, random, [(call, count), …], target positions), …]"""
    paths = {call.number: call.path for call in calls}
    trainable = {prefix for prefix, token in trie(calls).items() if token.sampled}
    leaves, drawn = leaves_by_hand(calls, facts, bounds), []
    while len(drawn) < bounds.j_max:
        counts = {leaf: [n for n in range(1, len(paths[leaf]) + 1) if paths[leaf][:n] in trainable] for leaf in leaves}
        left = [leaf for leaf in leaves if counts[leaf]]
        if not left:
            break
        best = min(bounds.order.index(facts[leaf].role) for leaf in left)
        pool = [leaf for leaf in left if bounds.order.index(facts[leaf].role) == best]
        random = draws.uniform(seed, len(drawn))
        tickets = [leaf for leaf in pool for _ in counts[leaf]]
        chosen = tickets[int(random * 2**53) * len(tickets) >> 53]
        drawn.append((chosen, random, [(leaf, len(counts[leaf])) for leaf in pool], [n - 1 for n in counts[chosen]]))
        trainable -= {paths[chosen][:n] for n in range(1, len(paths[chosen]) + 1)}
    return drawn


def positions(selection: Selection, number: int) -> list[int]:
    return [at for start, end in selection.trajectories[number].targets for at in range(start, end)]


@given(cases())
def test_leaves_are_those_of_the_definition(case) -> None:
    calls, facts, bounds = case
    leaves, exclusions = find_leaves(fold(calls), facts, bounds)
    assert leaves == leaves_by_hand(calls, facts, bounds)
    assert sorted([*leaves, *exclusions]) == [call.number for call in calls]


@given(cases())
def test_draws_and_targets_are_those_of_the_definition(case) -> None:
    calls, facts, bounds = case
    selection = select(fold(calls), facts, bounds, SEED)
    expected = select_by_hand(calls, facts, bounds, SEED)
    found = [
        (
            record.chosen_call,
            record.random,
            [(candidate.call, candidate.count) for candidate in record.candidates],
            positions(selection, record.number),
        )
        for record in selection.draws
    ]
    assert found == expected


@given(cases())
def test_each_sampled_token_is_a_target_at_most_once(case) -> None:
    calls, facts, bounds = case
    selection = select(fold(calls), facts, bounds, SEED)
    paths = {call.number: call.path for call in calls}
    targets = [
        paths[trajectory.call][: at + 1]
        for trajectory in selection.trajectories
        for at in positions(selection, trajectory.number)
    ]
    assert len(targets) == len(set(targets)) == selection.num_targets


@given(cases())
def test_every_call_is_a_trajectory_or_has_a_reason_why_not(case) -> None:
    calls, facts, bounds = case
    selection = select(fold(calls), facts, bounds, SEED)
    drawn = {trajectory.call for trajectory in selection.trajectories}
    assert drawn | set(selection.exclusions) == {call.number for call in calls}
    assert not drawn & set(selection.exclusions)


@given(cases())
def test_probabilities_of_a_draw_add_up_to_one(case) -> None:
    calls, facts, bounds = case
    for record in select(fold(calls), facts, bounds, SEED).draws:
        assert sum(candidate.probability for candidate in record.candidates) == pytest.approx(1)
        assert 0 <= record.random < 1


@given(cases())
def test_the_same_seed_gives_the_same_selection(case) -> None:
    calls, facts, bounds = case
    assert select(fold(calls), facts, bounds, SEED) == select(fold(calls), facts, bounds, SEED)


def call(number: int, input_ids: tuple[int, ...], output_ids: tuple[int, ...], trained: bool = True) -> MadeCall:
    return MadeCall(number, input_ids, output_ids, 0, trained, None, 0)


def facts_of(*roles: str) -> dict[int, CallFacts]:
    return {number: CallFacts(role) for number, role in enumerate(roles)}


def test_a_summary_on_top_of_main_does_not_hide_main() -> None:
    calls = [call(0, (1,), (2, 3)), call(1, (1, 2, 3, 4), (5,))]
    selection = select(fold(calls), facts_of(Role.MAIN, Role.MAIN_SUMMARY), WIDE, SEED)
    assert [t.call for t in selection.trajectories] == [0, 1]
    assert [t.targets for t in selection.trajectories] == [((1, 3),), ((4, 5),)]


def test_a_later_main_call_hides_the_one_it_extends() -> None:
    calls = [call(0, (1,), (2, 3)), call(1, (1, 2, 3, 4), (5,))]
    selection = select(fold(calls), facts_of(Role.MAIN, Role.MAIN), WIDE, SEED)
    assert selection.exclusions == {0: Excluded.EXTENDED}
    assert selection.trajectories[0].targets == ((1, 3), (4, 5))


def test_a_call_too_long_to_train_does_not_hide_the_one_it_extends() -> None:
    calls = [call(0, (1,), (2, 3)), call(1, (1, 2, 3, 4), (5,))]
    selection = select(fold(calls), facts_of(Role.MAIN, Role.MAIN), replace(WIDE, context_tokens=4), SEED)
    assert selection.exclusions == {1: Excluded.TOO_LONG}
    assert [t.call for t in selection.trajectories] == [0]


def test_an_auxiliary_call_is_never_drawn_and_hides_nothing() -> None:
    calls = [call(0, (1,), (2,)), call(1, (1, 2, 3), (4,))]
    selection = select(fold(calls), facts_of(Role.MAIN, Role.AUXILIARY), WIDE, SEED)
    assert selection.exclusions == {1: Excluded.AUXILIARY}
    assert [t.call for t in selection.trajectories] == [0]


def test_a_call_whose_client_left_is_trained_only_if_a_later_call_extends_it() -> None:
    left = {0: CallFacts(Role.MAIN, acknowledged=False), 1: CallFacts(Role.MAIN)}
    alone = select(fold([call(0, (1,), (2,)), call(1, (1,), (3,))]), left, WIDE, SEED)
    assert alone.exclusions == {0: Excluded.UNACKNOWLEDGED}
    followed = select(fold([call(0, (1,), (2,)), call(1, (1, 2, 9), (3,))]), left, WIDE, SEED)
    assert followed.trajectories[0].targets == ((1, 2), (3, 4))


def test_a_quarantined_call_gives_no_targets_even_under_a_good_one() -> None:
    facts = {0: CallFacts(Role.MAIN, quarantined=True), 1: CallFacts(Role.MAIN)}
    selection = select(fold([call(0, (1,), (2,), trained=False), call(1, (1, 2, 9), (3,))]), facts, WIDE, SEED)
    assert selection.exclusions == {0: Excluded.QUARANTINED}
    assert selection.trajectories[0].targets == ((3, 4),)


def test_two_calls_with_one_path_stand_for_one_leaf() -> None:
    selection = select(fold([call(0, (1,), (2,)), call(1, (1,), (2,))]), facts_of(Role.MAIN, Role.MAIN), WIDE, SEED)
    assert selection.exclusions == {1: Excluded.SAME_PATH}
    assert selection.num_targets == 1


def test_leaves_are_drawn_in_proportion_to_their_trainable_tokens() -> None:
    calls = [call(0, (1,), (2,)), call(1, (1,), (3, 3, 3))]
    tree, facts = fold(calls), facts_of(Role.MAIN, Role.MAIN)
    firsts = [select(tree, facts, WIDE, draws.selection_seed(1, g, 0, 1)).draws[0].chosen_call for g in range(2000)]
    assert firsts.count(1) == pytest.approx(1500, abs=4 * (2000 * 0.25 * 0.75) ** 0.5)


def test_no_more_than_j_max_trajectories_are_drawn() -> None:
    calls = [call(number, (1,), (number + 2,)) for number in range(4)]
    selection = select(fold(calls), facts_of(*[Role.MAIN] * 4), replace(WIDE, j_max=3), SEED)
    assert len(selection.trajectories) == 3
    assert list(selection.exclusions.values()) == [Excluded.OVER_J_MAX]
