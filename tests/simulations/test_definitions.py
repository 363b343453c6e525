"""Every ratio can be read beside the definition of its policy."""

import pytest

from scheduler.core.policies import REGISTRY
from scheduler.simulator.studies.definitions import definition
from scheduler.simulator.studies.plots import colour_of


@pytest.mark.parametrize("policy", REGISTRY)
def test_every_policy_has_a_definition_of_its_own(policy: str) -> None:
    text = definition(policy)
    assert len(text.split()) > 8
    assert text not in [definition(other) for other in REGISTRY if other != policy]


def test_policies_are_told_apart_by_colour() -> None:
    assert len({colour_of(policy) for policy in REGISTRY}) == len(REGISTRY)
