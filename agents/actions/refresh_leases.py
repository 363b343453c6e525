"""After the database's clock was set: leases and heartbeats of before say nothing, so everyone gets a fresh window."""

from datetime import timedelta

from django.db.models.functions import Now

from agents.executions.leases import LEASE_S
from agents.models import Execution, ProxyProcess


def refresh_leases(run_id: int, only_future: bool = False) -> int:
    """Workers and proxies are heard of as of now; returns how many leases that changed.

    `only_future`: just those that lie further ahead than any can, and would outlive a dead worker by hours.
    """
    window_s = timedelta(seconds=LEASE_S)
    states = (Execution.State.RUNNING, Execution.State.EVALUATING)
    leases = Execution.objects.filter(run=run_id, state__in=states, lease_expires_at__isnull=False)
    proxies = ProxyProcess.objects.filter(stopped_at__isnull=True)
    if only_future:
        leases = leases.filter(lease_expires_at__gt=Now() + window_s)
        proxies = proxies.filter(seen_at__gt=Now())
    proxies.update(seen_at=Now())
    return leases.update(lease_expires_at=Now() + window_s)
