"""What a run recorded, what selection made of it, and what that saved, each against a baseline with a name.

Over the training executions of the run that ended. Costs are in tokens that go through forward and backward
(agents.core.costs), summed over the executions that a batch has admitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection
from django.db.models import Count, Q, Sum

from agents.core.exclusion import Exclusion, ExclusionTotals, exclusion, totals
from agents.models import Call, Draw, Execution, Group, Run, SelectionRecord, Trajectory

PROMPT_PER_CALL = "one prompt per call stored"
EVERY_CALL = "every call trained as its own full sequence"
EVERY_LEAF = "every leaf trained as its own full sequence"
UNCAPPED = "no cap on trajectories"
EVERY_TRAJECTORY = "each trajectory as its own full sequence"


@dataclass(frozen=True)
class TokenCounts:
    """`recorded`: input + output of every call; `unique`: tokens of the trees; `sampled`: of those, sampled by the
    policy; `selectable`: of those, on the path of a leaf; `selected`: targets of trained trajectories. The last two
    count the executions that a batch has admitted, of which `sampled_admitted` were sampled."""

    executions: int
    calls: int
    recorded: int
    unique: int
    sampled: int
    admitted_executions: int
    sampled_admitted: int
    selectable: int
    selected: int
    trajectories: int
    dummies: int


@dataclass(frozen=True)
class Saving:
    """What one rule saved: `tokens` instead of the `baseline_tokens` that `baseline` would have taken."""

    what: str
    baseline: str
    baseline_tokens: int
    tokens: int

    @property
    def saved_tokens(self) -> int:
        return self.baseline_tokens - self.tokens

    @property
    def saved_share(self) -> float:
        return self.saved_tokens / self.baseline_tokens if self.baseline_tokens else 0.0

    @property
    def factor(self) -> float | None:
        """How many times cheaper; None where nothing was spent."""
        return self.baseline_tokens / self.tokens if self.tokens else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "saved_tokens": self.saved_tokens,
            "saved_share": self.saved_share,
            "factor": self.factor,
        }


@dataclass(frozen=True)
class Report:
    run: int
    tokens: TokenCounts
    savings: tuple[Saving, ...]
    unresolved: ExclusionTotals
    outcomes: dict[str, int]
    reason_codes: dict[str, int]
    draws_by_role: dict[str, int]
    exclusions: dict[str, int]
    quarantined: dict[str, int]
    false_forks: int
    false_fork_rate: float

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "tokens": asdict(self.tokens),
            "savings": [saving.to_json() for saving in self.savings],
            "unresolved": asdict(self.unresolved) | {"share": self.unresolved.share},
            "outcomes": self.outcomes,
            "reason_codes": self.reason_codes,
            "draws_by_role": self.draws_by_role,
            "exclusions": self.exclusions,
            "quarantined": self.quarantined,
            "false_forks": self.false_forks,
            "false_fork_rate": self.false_fork_rate,
        }


def report(run: Run) -> Report:
    """Aggregates in the database; a run of any size is a handful of queries."""
    ended = _ended(run)
    tokens, costs = _tokens(run, ended), _costs(run)
    false_forks = ended.aggregate(n=Sum("num_false_forks", default=0))["n"]
    return Report(
        run=run.pk,
        tokens=tokens,
        savings=_savings(tokens, costs),
        unresolved=totals(group_exclusions(run).values()),
        outcomes=_counted(ended, "outcome"),
        reason_codes=_counted(ended, "reason_code"),
        draws_by_role=_counted(Draw.objects.filter(execution__in=ended, execution__selection__isnull=False), "role"),
        exclusions=_exclusions(run),
        quarantined=quarantine_reasons(run),
        false_forks=false_forks,
        false_fork_rate=false_forks / tokens.calls if tokens.calls else 0.0,
    )


def group_exclusions(run: Run) -> dict[int, Exclusion]:
    """What leaving unresolved executions out did to each closed training group, by the group's id."""
    closed = Group.objects.filter(run=run, kind=Group.Kind.TRAINING).exclude(state=Group.State.DISPATCHED)
    unresolved = Count("executions", filter=Q(executions__outcome=Execution.Outcome.UNRESOLVED))
    rows = closed.annotate(num_unresolved=unresolved).order_by("number")
    return {group.pk: exclusion_of(group, group.num_unresolved) for group in rows}


def exclusion_of(group: Group, num_unresolved: int) -> Exclusion:
    known = group.reward_mean is not None and group.reward_std is not None
    return exclusion(group.num_votes if known else 0, group.reward_mean, group.reward_std, num_unresolved)


def quarantine_reasons(run: Run) -> dict[str, int]:
    """Quarantined calls of live attempts by the reason that the proxy wrote, most frequent first."""
    rows = quarantined_calls(run).order_by().values_list("error").annotate(Count("pk"))
    found: Counter[str] = Counter()
    for reason, number in rows:
        found[(reason or "no reason recorded")[:120]] += number
    return dict(found.most_common())


def quarantined_calls(run: Run) -> Any:
    return Call.objects.filter(execution__run=run, state=Call.State.QUARANTINED)


def _ended(run: Run) -> Any:
    return Execution.objects.filter(run=run, group__kind=Group.Kind.TRAINING, state=Execution.State.FINISHED)


def _counted(rows: Any, field: str) -> dict[str, int]:
    found = rows.order_by().values_list(field).annotate(n=Count("pk"))
    return dict(sorted(((str(name), n) for name, n in found), key=lambda item: (-item[1], item[0])))


def _tokens(run: Run, ended: Any) -> TokenCounts:
    recorded = ended.aggregate(
        executions=Count("pk"),
        calls=Sum("num_calls", default=0),
        recorded=Sum("num_total_tokens", default=0),
        unique=Sum("num_unique_tokens", default=0),
        sampled=Sum("num_sampled_tokens", default=0),
    )
    admitted = ended.filter(selection__isnull=False)
    chosen = admitted.aggregate(
        admitted_executions=Count("pk"),
        sampled_admitted=Sum("num_sampled_tokens", default=0),
        selectable=Sum("selection__num_selectable_tokens", default=0),
        selected=Sum("selection__num_selected_tokens", default=0),
    )
    trained = Trajectory.objects.filter(execution__in=admitted, batch__isnull=False)
    drawn = trained.aggregate(
        trajectories=Count("pk", filter=Q(num_tokens__gt=0)), dummies=Count("pk", filter=Q(num_tokens=0))
    )
    return TokenCounts(**recorded, **chosen, **drawn)


def _costs(run: Run) -> dict[str, int]:
    names = ("every_call", "every_leaf", "uncapped", "selected", "tree")
    sums = {name: Sum(f"cost_{name}_tokens", default=0) for name in names}
    found: dict[str, int] = SelectionRecord.objects.filter(execution__run=run).aggregate(**sums)
    return found


def _savings(tokens: TokenCounts, costs: dict[str, int]) -> tuple[Saving, ...]:
    return (
        Saving("Sharing in storage", PROMPT_PER_CALL, tokens.recorded, tokens.unique),
        Saving("Sharing in training", EVERY_CALL, costs["every_call"], costs["every_leaf"]),
        Saving("Drawing each token once", EVERY_LEAF, costs["every_leaf"], costs["uncapped"]),
        Saving("J_max", UNCAPPED, costs["uncapped"], costs["selected"]),
        Saving("All together", EVERY_CALL, costs["every_call"], costs["selected"]),
        Saving("Still open: training on trees", EVERY_TRAJECTORY, costs["selected"], costs["tree"]),
    )


def _exclusions(run: Run) -> dict[str, int]:
    """Calls that selection passed over, by reason."""
    query = """
        SELECT pair->>1 AS reason, count(*) FROM agents_execution e JOIN agents_selectionrecord s
            ON s.execution_id = e.id, jsonb_array_elements(e.exclusions) pair
        WHERE e.run_id = %s GROUP BY 1 ORDER BY 2 DESC, 1
    """
    with connection.cursor() as cursor:
        cursor.execute(query, [run.pk])
        return {str(reason): int(number) for reason, number in cursor.fetchall()}


def lines(found: Report) -> Iterator[str]:
    """The report as text."""
    tokens = found.tokens
    yield f"Run {found.run}: {tokens.executions:,} training executions ended, {tokens.calls:,} calls"
    yield ""
    yield f"{'tokens recorded (input + output of every call)':<58}{tokens.recorded:>16,}"
    yield f"{'  unique (each once, in the trees)':<58}{tokens.unique:>16,}"
    yield f"{'  sampled by the policy':<58}{tokens.sampled:>16,}"
    of = f"of {tokens.admitted_executions:,} admitted executions, "
    yield f"{of + 'sampled':<58}{tokens.sampled_admitted:>16,}"
    yield f"{'  selectable (on the path of a leaf)':<58}{tokens.selectable:>16,}"
    yield f"{'  selected (trained)':<58}{tokens.selected:>16,}"
    yield f"{'trajectories trained, and dummies of no-work':<58}{tokens.trajectories:>10,} + {tokens.dummies:>3,}"
    yield ""
    yield f"{'saved, in tokens':<44}{'baseline':>16}{'spent':>16}{'saved':>9}"
    for saving in found.savings:
        yield f"{saving.what:<44}{saving.baseline_tokens:>16,}{saving.tokens:>16,}{saving.saved_share:>9.1%}"
        yield f"    against: {saving.baseline}"
    yield ""
    out = found.unresolved
    share = f"{out.num_unresolved:,} of {out.num_executions:,} ({out.share:.2%})"
    yield f"unresolved: {share}, in {out.num_affected} of {out.num_groups} groups"
    if out.num_affected:
        yield (
            f"    leaving them out instead of counting them as zero moved those groups' means by {out.mean_shift:+.3f}"
            f" on average (at most {out.max_mean_shift:+.3f}) and their deviations by {out.std_shift:+.3f}"
        )
    yield f"outcomes: {_pairs(found.outcomes)}"
    yield f"draws by role: {_pairs(found.draws_by_role)}"
    yield f"calls passed over: {_pairs(found.exclusions)}"
    yield f"quarantined calls: {_pairs(found.quarantined)}"
    yield f"false forks: {found.false_forks:,} ({found.false_fork_rate:.4%} of calls)"


def _pairs(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items()) or "none"
