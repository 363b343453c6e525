"""Which recording proxy gets an execution (docs/proxy.md, "Ownership")."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

from django.db.models import BooleanField, Case, Count, Q, Value, When
from django.db.models.functions import Now

from agents.models import Execution, ProxyProcess

#: A proxy heard of within this time takes new executions before all others.
ALIVE_WITHIN = timedelta(seconds=10)


def choose() -> ProxyProcess | None:
    """The living proxy on this machine with the fewest running executions; one that restarts when none lives.

    None where no proxy has registered a socket that this machine has: then the worker's own default holds.
    """
    here = [
        proxy
        for proxy in ProxyProcess.objects.exclude(socket="").annotate(is_alive=_is_alive())
        if Path(proxy.socket).is_socket()
    ]
    load = _running()
    return min(
        here,
        key=lambda proxy: (not proxy.is_alive, proxy.stopped_at is not None, load[proxy.pk], proxy.name),
        default=None,
    )


def _is_alive() -> Case:
    fresh = Q(stopped_at__isnull=True, seen_at__gt=Now() - ALIVE_WITHIN)
    return Case(When(fresh, then=Value(True)), default=Value(False), output_field=BooleanField())


def _running() -> Counter[int | None]:
    """Running executions by proxy."""
    rows = Execution.objects.filter(lease_expires_at__isnull=False, state=Execution.State.RUNNING, proxy__isnull=False)
    return Counter(dict(rows.values_list("proxy").annotate(count=Count("pk"))))
