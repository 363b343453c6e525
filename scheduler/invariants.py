"""Laws of cells, bursts and decisions (docs/algorithms.md §9, §11; docs/reliability.md "Invariants")."""

from agents import facade as agents
from agents.invariants import Invariant, Row, by_sql
from agents.trained import trained_paths
from scheduler.models import Burst
from scheduler.replay import replay
from trainers import facade as trainers


def _too_stale(run_id: int) -> list[Row]:
    """Targets older than the bound of the burst that dispatched their execution, or newer than what trains them."""
    bounds = dict(Burst.objects.filter(run=run_id).values_list("number", "max_staleness"))
    default = agents.run(run_id).config["max_staleness"]
    versions = trainers.batch_versions(run_id)
    return [
        {
            "execution": path.execution,
            "trajectory": path.number,
            "batch": path.batch,
            "batch_version": versions.get(path.batch),
            "min_version": path.min_version,
            "max_version": path.max_version,
        }
        for path in trained_paths(run_id)
        if not _is_within(path.min_version, path.max_version, versions.get(path.batch), bounds.get(path.burst, default))
    ]


def _is_within(oldest: int, newest: int, version: int | None, bound: int) -> bool:
    return version is not None and version - bound <= oldest and newest <= version


def _decided_otherwise(run_id: int) -> list[Row]:
    return [{"evaluation": d.evaluation_number, "what": d.what} for d in replay(run_id).differences]


INVARIANTS: tuple[Invariant, ...] = (
    by_sql(
        "one_core",
        "a run's cells have one core, and only it publishes versions",
        """
        SELECT n.cores, n.cells, w.version, w.cell_index AS published_by FROM (
            SELECT count(*) AS cells, count(*) FILTER (WHERE is_core) AS cores,
                   min(index) FILTER (WHERE is_core) AS core
            FROM scheduler_cell WHERE run_id = %(run)s) n
        LEFT JOIN trainers_weightversion w ON w.run_id = %(run)s AND w.cell_index IS DISTINCT FROM n.core
        WHERE n.cells > 0 AND (n.cores <> 1 OR w.id IS NOT NULL)
        """,
    ),
    by_sql(
        "one_core_per_epoch",
        "versions are published by rising epochs of the core",
        """
        SELECT version, epoch, next_epoch FROM (
            SELECT version, epoch, lead(epoch) OVER (ORDER BY version) AS next_epoch
            FROM trainers_weightversion WHERE run_id = %(run)s) v
        WHERE next_epoch < epoch
        """,
    ),
    by_sql(
        "burst_keeps_its_size",
        "a burst has exactly the groups and executions that its row says",
        """
        SELECT b.number AS burst, b.num_groups, n.groups, n.largest
        FROM scheduler_burst b CROSS JOIN LATERAL (
            SELECT count(*) AS groups, coalesce(max(s.size), 0) AS largest, coalesce(min(s.size), 0) AS smallest FROM (
                SELECT g.id, count(e.id) AS size FROM agents_group g JOIN agents_execution e ON e.group_id = g.id
                WHERE g.run_id = b.run_id AND g.kind = 'training' AND g.burst = b.number GROUP BY g.id) s) n
        WHERE b.run_id = %(run)s AND NOT (n.groups = b.num_groups
          AND n.largest = b.executions_per_group AND n.smallest = b.executions_per_group)
        """,
    ),
    Invariant("staleness_bound_holds", "no target is older than its burst's staleness bound allows", _too_stale),
    Invariant("decisions_replay", "stored snapshots give the stored decisions again", _decided_otherwise),
)
