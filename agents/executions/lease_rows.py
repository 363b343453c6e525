"""The statements by which executions change hands. Each is a transaction of its own, in one round trip.

Names of tables and columns are those of Django's models. Rows are locked in the order execution, group, run.
"""

#: The oldest queued executions run; each gets a key and a proxy by its place. The run counts those that were never
#: launched before, and its log says so (agents.events): its doorbell is rung by the scheduler, which sees `event_seq`.
QUEUED = """
WITH free AS (
    SELECT e.id, e.queued_at FROM agents_execution e JOIN agents_run r ON r.id = e.run_id
    WHERE e.state = 'queued' AND r.state IN ('starting', 'running')
    ORDER BY e.queued_at, e.id LIMIT %(limit)s FOR NO KEY UPDATE OF e SKIP LOCKED
), placed AS (
    SELECT id, row_number() OVER (ORDER BY queued_at, id) AS place FROM free
), leased AS (
    UPDATE agents_execution e SET state = 'running', proxy_id = given.proxy, lease_owner = %(owner)s,
        lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s), key_hash = given.key_hash,
        launched_at = statement_timestamp(), harness_started_at = NULL, harness_ended_at = NULL, harness_log = '',
        held_s = 0, sandbox = '{}', harness = '{}'
    FROM placed JOIN unnest(%(keys)s::bytea[], %(proxies)s::bigint[]) WITH ORDINALITY AS given (key_hash, proxy, place)
        USING (place)
    WHERE e.id = placed.id
    RETURNING e.id, e.attempt, e.run_id, e.group_id, placed.place
), launched AS (
    SELECT l.run_id, count(*) AS num, count(*) FILTER (WHERE l.attempt = 1 AND g.kind = 'training') AS num_new
    FROM leased l JOIN agents_group g ON g.id = l.group_id GROUP BY l.run_id
), counted AS (
    UPDATE agents_run r SET launched = r.launched + launched.num_new, event_seq = r.event_seq + launched.num
    FROM launched WHERE r.id = launched.run_id RETURNING r.id, r.event_seq - launched.num AS seq
), logged AS (
    INSERT INTO agents_runevent (run_id, seq, kind, payload, created_at)
    SELECT l.run_id, c.seq + row_number() OVER (PARTITION BY l.run_id ORDER BY l.place), 'execution_launched',
        jsonb_build_object('execution', l.id, 'group', l.group_id, 'attempt', l.attempt), statement_timestamp()
    FROM leased l JOIN counted c ON c.id = l.run_id
)
SELECT l.id AS execution, l.attempt, l.run_id AS run, l.place, t.path AS task_path, t.digest AS task_digest, r.config
FROM leased l JOIN agents_group g ON g.id = l.group_id JOIN agents_task t ON t.id = g.task_id
    JOIN agents_run r ON r.id = l.run_id
"""

#: Executions whose harness has ended and that nobody evaluates, with how it ended and what was kept before. One that
#: still has an owner has lost it.
EVALUATIONS = """
WITH free AS (
    SELECT e.id FROM agents_execution e JOIN agents_run r ON r.id = e.run_id
    WHERE e.state = 'evaluating' AND r.state = ANY(%(live)s)
        AND (e.lease_expires_at IS NULL OR e.lease_expires_at < statement_timestamp())
    ORDER BY e.harness_ended_at, e.id LIMIT %(limit)s FOR NO KEY UPDATE OF e SKIP LOCKED
), leased AS (
    UPDATE agents_execution e SET lost_attempts = e.lost_attempts + (e.lease_owner <> '')::int, lease_owner = %(owner)s,
        lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s)
    FROM free WHERE e.id = free.id
    RETURNING e.id, e.attempt, e.run_id, e.group_id, e.harness_ended_at, e.harness_exit AS exit_code,
        COALESCE(e.sandbox ->> 'timeout', '') AS timeout, e.num_malformed_calls AS malformed, e.hit_turn_limit
)
SELECT l.id AS execution, l.attempt, l.run_id AS run, l.exit_code, l.timeout, l.malformed, l.hit_turn_limit,
    t.path AS task_path, t.digest AS task_digest, r.config, k.attempt AS kept_attempt, k.path AS kept_path
FROM leased l JOIN agents_group g ON g.id = l.group_id JOIN agents_task t ON t.id = g.task_id
    JOIN agents_run r ON r.id = l.run_id LEFT JOIN agents_keptworkspace k ON k.execution_id = l.id
ORDER BY l.harness_ended_at, l.id
"""

#: No row: the attempt is not the live one. Repeated after a lost answer it changes nothing that counts.
HARNESS_ENDED = """
WITH ended AS (
    UPDATE agents_execution e SET state = 'evaluating', lease_owner = %(owner)s,
        lease_expires_at = CASE WHEN %(owner)s <> '' THEN
            statement_timestamp() + make_interval(secs => %(lease_s)s) END,
        key_hash = NULL, harness_ended_at = statement_timestamp(), harness_exit = %(exit_code)s,
        harness_log = %(log)s, hit_turn_limit = %(hit_turn_limit)s, timed_out = %(timeout)s <> '',
        sandbox = e.sandbox || jsonb_build_object('timeout', %(timeout)s::text),
        num_malformed_calls = greatest(%(malformed)s, (
            SELECT count(*) FROM agents_call c
            WHERE c.execution_id = e.id AND c.attempt = e.attempt AND c.malformed AND c.role <> 'auxiliary'))
    WHERE e.id = %(execution)s AND e.attempt = %(attempt)s
        AND (e.state = 'running' OR e.state = 'evaluating' AND e.lease_owner = %(owner)s)
    RETURNING e.id, e.num_malformed_calls AS malformed
)
SELECT e.malformed, k.attempt AS kept_attempt, k.path AS kept_path
FROM ended e LEFT JOIN agents_keptworkspace k ON k.execution_id = e.id
"""

RENEWED = """
UPDATE agents_execution SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s)
WHERE id = ANY(%(executions)s::bigint[]) AND lease_owner = %(owner)s AND state IN ('running', 'evaluating')
RETURNING id AS execution, attempt
"""

KEPT = """
INSERT INTO agents_keptworkspace (execution_id, attempt, host, path, num_bytes, problem, created_at, deleted_at)
VALUES (%(execution)s, %(attempt)s, %(host)s, %(path)s, %(num_bytes)s, %(problem)s, statement_timestamp(), NULL)
ON CONFLICT (execution_id) DO UPDATE SET attempt = EXCLUDED.attempt, host = EXCLUDED.host, path = EXCLUDED.path,
    num_bytes = EXCLUDED.num_bytes, problem = EXCLUDED.problem, created_at = EXCLUDED.created_at, deleted_at = NULL
"""
