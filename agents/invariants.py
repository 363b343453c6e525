"""Laws that the rows of a run obey at every moment, as queries for rows that break one.

See docs/reliability.md "Invariants".

Each app states the laws of its own tables here, in `trainers.invariants` and in `scheduler.invariants`.
`manage.py verify_run` asks them all in one snapshot of the database.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection

from agents import trained

Row = dict[str, Any]


@dataclass(frozen=True)
class Invariant:
    """`law` is a sentence; `broken_by` returns the rows of a run that break it, enough of each to find it."""

    name: str
    law: str
    broken_by: Callable[[int], list[Row]]


def by_sql(name: str, law: str, query: str) -> Invariant:
    """A law whose breakers `query` selects; `%(run)s` is the run."""

    def broken_by(run_id: int) -> list[Row]:
        with connection.cursor() as cursor:
            cursor.execute(query, {"run": run_id})
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return Invariant(name, law, broken_by)


INVARIANTS: tuple[Invariant, ...] = (
    by_sql(
        "counters_in_order",
        "dispatched ≥ launched ≥ finished",
        "SELECT dispatched, launched, finished FROM agents_run "
        "WHERE id = %(run)s AND NOT (dispatched >= launched AND launched >= finished)",
    ),
    by_sql(
        "counters_count_rows",
        "dispatched, launched and finished are the numbers of rows they stand for",
        """
        SELECT r.dispatched, r.launched, r.finished, n.* FROM agents_run r CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE e.state <> 'cancelled' OR e.launched_at IS NOT NULL) AS dispatched_rows,
                   count(*) FILTER (WHERE e.launched_at IS NOT NULL) AS launched_rows,
                   count(*) FILTER (WHERE e.launched_at IS NOT NULL AND e.state IN ('finished', 'cancelled'))
                       AS finished_rows
            FROM agents_execution e JOIN agents_group g ON g.id = e.group_id
            WHERE e.run_id = r.id AND g.kind = 'training') n
        WHERE r.id = %(run)s
          AND (r.dispatched, r.launched, r.finished) <> (n.dispatched_rows, n.launched_rows, n.finished_rows)
        """,
    ),
    by_sql(
        "events_without_gaps",
        "the event log is numbered 1, 2, … without gaps",
        """
        SELECT r.event_seq, n.* FROM agents_run r CROSS JOIN LATERAL (
            SELECT count(*) AS num_events, count(DISTINCT seq) AS num_numbers, coalesce(max(seq), 0) AS newest
            FROM agents_runevent WHERE run_id = r.id) n
        WHERE r.id = %(run)s AND NOT (r.event_seq = n.num_events AND n.num_events = n.num_numbers
          AND n.num_numbers = n.newest)
        """,
    ),
    by_sql(
        "call_recorded_once",
        "each call is recorded once",
        "SELECT c.execution_id AS execution, c.attempt, c.number, count(*) AS times FROM agents_call c "
        "JOIN agents_execution e ON e.id = c.execution_id WHERE e.run_id = %(run)s "
        "GROUP BY c.execution_id, c.attempt, c.number HAVING count(*) > 1",
    ),
    by_sql(
        "call_extends_a_recorded_call",
        "a call's parent is an earlier call of its attempt that is recorded, and is at least as long as what is shared",
        """
        SELECT c.execution_id AS execution, c.attempt, c.number, c.parent_number, c.prefix_tokens
        FROM agents_call c JOIN agents_execution e ON e.id = c.execution_id
        LEFT JOIN agents_call p ON p.execution_id = c.execution_id AND p.attempt = c.attempt
            AND p.number = c.parent_number
        WHERE e.run_id = %(run)s AND (c.input_tokens < c.prefix_tokens OR (c.parent_number IS NOT NULL AND (
            p.id IS NULL OR p.number >= c.number OR c.prefix_tokens > p.input_tokens + p.output_tokens)))
        """,
    ),
    by_sql(
        "sealed_execution_keeps_its_calls",
        "a finished execution has exactly the calls and nodes that were folded",
        """
        SELECT e.id AS execution, e.num_calls, c.calls, e.num_unique_tokens, n.tokens, e.num_sampled_tokens, n.sampled
        FROM agents_execution e
        CROSS JOIN LATERAL (SELECT count(*) AS calls FROM agents_call
            WHERE execution_id = e.id AND attempt = e.attempt) c
        CROSS JOIN LATERAL (SELECT coalesce(sum(num_tokens), 0) AS tokens, coalesce(sum(num_sampled), 0) AS sampled
            FROM agents_node WHERE execution_id = e.id AND attempt = e.attempt) n
        WHERE e.run_id = %(run)s AND e.state = 'finished'
          AND (e.num_calls, e.num_unique_tokens, e.num_sampled_tokens) <> (c.calls, n.tokens, n.sampled)
        """,
    ),
    by_sql(
        "execution_ends_once",
        "an execution that is over has one event that says so, and any other has none",
        """
        SELECT e.id AS execution, e.state, count(v.id) AS events FROM agents_execution e
        LEFT JOIN agents_runevent v ON v.run_id = e.run_id AND v.kind = 'execution_finished'
            AND v.payload->'execution' = to_jsonb(e.id)
        WHERE e.run_id = %(run)s GROUP BY e.id
        HAVING count(v.id) <> CASE WHEN e.state IN ('finished', 'cancelled') THEN 1 ELSE 0 END
        """,
    ),
    by_sql(
        "reward_exactly_where_it_votes",
        "resolved and no-work executions have a reward, no-work's is 0, and no other has one",
        """
        SELECT id AS execution, state, outcome, reward, training_reward FROM agents_execution
        WHERE run_id = %(run)s AND (
            (outcome IN ('complete', 'partial', 'no-work')) <> (reward IS NOT NULL)
            OR (reward IS NULL) <> (training_reward IS NULL)
            OR (outcome = 'no-work' AND reward <> 0)
            OR (outcome <> '') <> (state IN ('finished', 'cancelled')))
        """,
    ),
    by_sql(
        "no_key_outlives_its_execution",
        "an execution that is not running has no proxy key, and one that is over has no lease",
        """
        SELECT id AS execution, state, lease_owner FROM agents_execution WHERE run_id = %(run)s AND (
            (state NOT IN ('running', 'evaluating') AND key_hash IS NOT NULL)
            OR (state IN ('finished', 'cancelled') AND lease_expires_at IS NOT NULL))
        """,
    ),
    by_sql(
        "old_attempts_are_not_trained",
        "draws, trajectories and nodes belong to the attempt that finished",
        """
        SELECT e.id AS execution, e.attempt, x.attempt AS of_attempt, x.what FROM agents_execution e JOIN (
            SELECT execution_id, attempt, 'draw' AS what FROM agents_draw
            UNION ALL SELECT execution_id, attempt, 'trajectory' FROM agents_trajectory
            UNION ALL SELECT execution_id, attempt, 'node' FROM agents_node) x ON x.execution_id = e.id
        WHERE e.run_id = %(run)s AND x.attempt <> e.attempt
        """,
    ),
    by_sql(
        "group_closes_with_its_last_execution",
        "a group is closed exactly when all its executions are over, with the votes that they have",
        """
        SELECT g.id AS "group", g.state, g.num_votes, n.owed, n.votes FROM agents_group g CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE state NOT IN ('finished', 'cancelled')) AS owed,
                   count(*) FILTER (WHERE outcome IN ('complete', 'partial', 'no-work')) AS votes
            FROM agents_execution WHERE group_id = g.id) n
        WHERE g.run_id = %(run)s
          AND ((g.state = 'dispatched') <> (n.owed > 0) OR (g.state <> 'dispatched' AND g.num_votes <> n.votes))
        """,
    ),
    by_sql(
        "nothing_crosses_runs_or_projects",
        "executions, groups and tasks belong to the run, and the run to one project and task set",
        """
        SELECT g.id AS "group", g.run_id, e.id AS execution, e.run_id AS execution_run, t.task_set_id, r.task_set_id
        FROM agents_group g JOIN agents_execution e ON e.group_id = g.id JOIN agents_run r ON r.id = g.run_id
        JOIN agents_task t ON t.id = g.task_id
        WHERE %(run)s IN (g.run_id, e.run_id) AND (e.run_id <> g.run_id OR t.task_set_id <> r.task_set_id)
        """,
    ),
    Invariant("token_trained_once", "each sampled token is a target at most once", trained.targets_trained_twice),
    Invariant("only_sampled_tokens_trained", "every target was sampled by the policy", trained.targets_not_sampled),
    Invariant("draws_replay", "recorded draws come out again from the recorded calls", trained.unreproducible_draws),
)
