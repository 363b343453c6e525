"""Cost of selection (docs/algorithms.md §7) on the tree of one long execution, J_max = 5.

The baseline is one numpy pass over the same tokens: ids, flags and log-probabilities of the drawn trajectories laid out
as arrays, which whoever trains on them has to do in any case.
"""

import sys
from collections.abc import Mapping

from agents.core.draws import selection_seed
from agents.core.roles import DEFAULT_ORDER
from agents.core.selection import Bounds, select
from gyreweb.bench.figures import Figure
from gyreweb.bench.synthetic import execution, facts
from gyreweb.bench.tree import fold_deltas, interleaved, paired

REPEATS = 25


def run() -> Mapping[str, Figure]:
    """Figures of `manage.py bench select`."""
    calls = list(execution())
    tree = fold_deltas(calls)
    known = {call.number: facts(call.number) for call in calls}
    bounds = Bounds(j_max=5, context_tokens=262_144, order=DEFAULT_ORDER)
    seed = selection_seed(1, 0, 0, 1)
    selection = select(tree, known, bounds, seed)
    if select(tree, known, bounds, seed) != selection:
        raise AssertionError("the same seed drew other trajectories")
    drawn = [trajectory.call for trajectory in selection.trajectories]
    print(f"{tree.num_tokens:,} unique tokens, {len(drawn)} trajectories drawn", file=sys.stderr)
    taken, baseline = interleaved(
        REPEATS,
        lambda: select(tree, known, bounds, seed),
        lambda: [tree.path_tokens(call) for call in drawn],
    )
    num_sampled = sum(node.num_sampled for node in tree.nodes())
    return {
        "select": paired(taken, baseline, "s"),
        "trajectories": Figure(len(drawn), "trajectories"),
        "targets": Figure.against(selection.num_targets, num_sampled, "tokens"),
        "trained_tokens": Figure.against(
            sum(trajectory.num_tokens for trajectory in selection.trajectories),
            sum(end.length for end in tree.ends.values()),
            "tokens",
        ),
        "num_calls": Figure(len(calls), "calls"),
    }
