"""Laws of batches, micro-steps, versions and checkpoints.

See docs/algorithms.md §8, §11; docs/reliability.md "Invariants".
"""

from agents.invariants import Invariant, Row, by_sql
from trainers.core.payload import decode_payload
from trainers.models import Batch, MicroStep

#: float32 weights of a batch's executions add up to whole numbers within this share.
WEIGHT_TOLERANCE = 1e-3


def _weights_that_do_not_add_up(run_id: int) -> list[Row]:
    """Each execution with targets weighs 1 in all. Batches whose payloads retention has emptied are passed over."""
    rows = []
    for batch in Batch.objects.filter(run=run_id).order_by("number"):
        micro_steps = list(MicroStep.objects.filter(batch=batch).defer(None))
        if any(not len(micro_step.payload) for micro_step in micro_steps):
            continue
        total = sum(float(decode_payload(m.payload).weights.sum(dtype="float64")) for m in micro_steps)
        expected = _executions_with_targets(batch)
        if abs(total - expected) > WEIGHT_TOLERANCE * max(expected, 1):
            rows.append({"batch": batch.number, "weight": total, "executions_with_targets": expected})
    return rows


def _executions_with_targets(batch: Batch) -> int:
    query = by_sql(
        "",
        "",
        "SELECT count(DISTINCT t.execution_id) AS n FROM agents_trajectory t "
        "JOIN agents_execution e ON e.id = t.execution_id "
        f"WHERE e.run_id = %(run)s AND t.num_targets > 0 AND t.batch = {batch.number:d}",
    )
    return int(query.broken_by(batch.run_id)[0]["n"])


INVARIANTS: tuple[Invariant, ...] = (
    by_sql(
        "micro_step_counted_exactly_once",
        "every micro-step of a batch that stepped is counted by one hand-in that was not reset",
        """
        SELECT b.number AS batch, m.number AS micro_step, m.counted_at, h.state AS hand_in
        FROM trainers_microstep m JOIN trainers_batch b ON b.id = m.batch_id
        LEFT JOIN trainers_handin h ON h.id = m.hand_in_id
        WHERE b.run_id = %(run)s AND (
            (b.state = 'stepped' AND m.hand_in_id IS NULL)
            OR (m.hand_in_id IS NOT NULL AND (h.state <> 'counted' OR m.counted_at IS NULL)))
        """,
    ),
    by_sql(
        "hand_in_counts_what_it_summed",
        "a counted hand-in counts as many micro-steps as it summed, all claimed by its cell and epoch in its batch",
        """
        SELECT b.number AS batch, h.id AS hand_in, h.state, h.num_micro_steps, count(m.id) AS micro_steps
        FROM trainers_handin h JOIN trainers_batch b ON b.id = h.batch_id
        LEFT JOIN trainers_microstep m ON m.hand_in_id = h.id
        WHERE b.run_id = %(run)s GROUP BY b.number, h.id
        HAVING count(m.id) <> CASE WHEN h.state = 'counted' THEN h.num_micro_steps ELSE 0 END
            OR bool_or((m.batch_id, m.cell_index, m.epoch) IS DISTINCT FROM (h.batch_id, h.cell_index, h.epoch))
                AND count(m.id) > 0
        """,
    ),
    by_sql(
        "version_counts_steps",
        "the run's weight version is the number of batches that stepped, each from the version before",
        """
        SELECT r.version, n.* FROM agents_run r CROSS JOIN LATERAL (
            SELECT count(*) AS stepped, count(DISTINCT version) AS versions, coalesce(max(version) + 1, 0) AS newest
            FROM trainers_batch WHERE run_id = r.id AND state = 'stepped') n
        WHERE r.id = %(run)s
          AND NOT (r.version = n.stepped AND n.stepped = n.versions AND n.versions = n.newest)
        """,
    ),
    by_sql(
        "version_has_checkpoint_and_weights",
        "every version that was stepped to has a checkpoint and a published snapshot",
        """
        SELECT s.version, c.id AS checkpoint, w.id AS weights
        FROM agents_run r CROSS JOIN LATERAL generate_series(1, r.version) AS s(version)
        LEFT JOIN trainers_checkpoint c ON c.run_id = r.id AND c.version = s.version
        LEFT JOIN trainers_weightversion w ON w.run_id = r.id AND w.version = s.version
        WHERE r.id = %(run)s AND (c.id IS NULL OR w.id IS NULL)
        """,
    ),
    by_sql(
        "batch_holds_its_groups",
        "a batch counts the groups it admitted and their votes, none of an older burst and none of another unless the "
        "policy mixes bursts; they are consumed exactly when it stepped",
        """
        SELECT b.number AS batch, b.state, b.num_groups, n.groups, b.num_votes, n.votes, n.of_other_bursts, n.consumed
        FROM trainers_batch b CROSS JOIN LATERAL (
            SELECT count(*) AS groups, coalesce(sum(g.num_votes), 0) AS votes,
                   count(*) FILTER (WHERE g.burst IS NULL OR g.burst < b.burst
                       OR (g.burst > b.burst AND r.policy_kind <> 'elastic+')) AS of_other_bursts,
                   count(*) FILTER (WHERE g.state = 'consumed') AS consumed
            FROM agents_group g JOIN agents_run r ON r.id = g.run_id
            WHERE g.run_id = b.run_id AND g.kind = 'training' AND g.batch = b.number) n
        WHERE b.run_id = %(run)s AND NOT (b.num_groups = n.groups AND b.num_votes = n.votes AND n.of_other_bursts = 0
          AND n.consumed = CASE WHEN b.state = 'stepped' THEN n.groups ELSE 0 END)
        """,
    ),
    by_sql(
        "micro_steps_hold_the_trajectories",
        "the micro-steps of a batch hold the targets and trajectories that selection gave it",
        """
        SELECT b.number AS batch, m.targets, m.trajectories, t.drawn_targets, t.drawn FROM trainers_batch b
        CROSS JOIN LATERAL (SELECT coalesce(sum(num_targets), 0) AS targets,
            coalesce(sum(num_trajectories), 0) AS trajectories FROM trainers_microstep WHERE batch_id = b.id) m
        CROSS JOIN LATERAL (SELECT coalesce(sum(t.num_targets), 0) AS drawn_targets, count(t.id) AS drawn
            FROM agents_trajectory t JOIN agents_execution e ON e.id = t.execution_id
            WHERE e.run_id = b.run_id AND t.batch = b.number AND t.num_tokens > 0) t
        WHERE b.run_id = %(run)s AND (m.targets, m.trajectories) <> (t.drawn_targets, t.drawn)
        """,
    ),
    Invariant("execution_weighs_one", "the weights of an execution's targets add up to 1", _weights_that_do_not_add_up),
)
