"""Time that a recording proxy was gone: its harnesses could do nothing, so it counts in none of their limits.

A proxy that comes back adds its absence to the held time of its executions, and so does one that takes over
(agents.proxy.ownership). Until then the absence so far is read from its last heartbeat.
"""

from __future__ import annotations

from django.db import connection

#: Heartbeats come every second; one that is a little late is no absence.
LATE_S = 2.0
#: An absence counts for so long. Nobody comes back to an execution after that.
AT_MOST_S = 3600.0

_HELD = """
SELECT e.held_s + CASE WHEN p.id IS NULL THEN 0 ELSE LEAST(%(most)s, GREATEST(0, EXTRACT(epoch FROM
    clock_timestamp() - GREATEST(p.seen_at, e.launched_at)) - %(late)s)) END
FROM agents_execution e LEFT JOIN agents_proxyprocess p ON p.id = e.proxy_id
WHERE e.id = %(execution)s AND e.attempt = %(attempt)s AND e.state IN ('running', 'evaluating')
"""


def held_s(execution: int, attempt: int) -> float:
    """Seconds that do not count in the limits of an attempt: calls held for scheduling, and its proxy gone."""
    values = {"execution": execution, "attempt": attempt, "late": LATE_S, "most": AT_MOST_S}
    with connection.cursor() as cursor:
        cursor.execute(_HELD, values)
        row = cursor.fetchone()
    return float(row[0]) if row else 0.0
