"""Policies by name: one registry for live runs and simulator (docs/algorithms.md §9)."""

from scheduler.core.policies.async_split import AsyncBarrier, AsyncBest, AsyncStreamed
from scheduler.core.policies.base import Policy
from scheduler.core.policies.colocate import Colocate
from scheduler.core.policies.elastic import Elastic
from scheduler.core.policies.elastic_plus import ElasticPlus

REGISTRY: dict[str, Policy] = {
    policy.kind: policy
    for policy in (Elastic(), ElasticPlus(), Colocate(), AsyncBarrier(), AsyncStreamed(), AsyncBest())
}


def policy_of(kind: str) -> Policy:
    """The policy called `kind`. Raises KeyError with the known names."""
    if kind not in REGISTRY:
        raise KeyError(f"policy_kind {kind!r} is unknown; known: {', '.join(REGISTRY)}")
    return REGISTRY[kind]


__all__ = ["REGISTRY", "Policy", "policy_of"]
