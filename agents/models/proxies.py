"""The recording proxies: which processes there are, and by `Execution.proxy` which execution belongs to which."""

from django.db import models


class ProxyProcess(models.Model):
    """One identity of a recording proxy. A process that starts under it raises `epoch`; what an older one says of its
    executions is refused in SQL.

    Workers lease executions to a proxy whose `socket` they can reach; `address` is the same proxy over TCP.
    """

    name = models.CharField(max_length=60, unique=True, help_text="Stays the same over restarts.")
    epoch = models.PositiveIntegerField(default=0, help_text="Processes that have started under this name.")
    socket = models.CharField(max_length=200, help_text="Path of the unix socket, on the machine of the process.")
    address = models.CharField(max_length=200, help_text="Base URL over TCP.")
    pid = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="Last heartbeat, by the database's clock.")
    stopped_at = models.DateTimeField(null=True, blank=True, help_text="Set by an orderly end; cleared at a start.")
    figures = models.JSONField(default=dict, help_text="What /health tells: sessions, calls, tokens, bytes.")

    class Meta:
        verbose_name_plural = "proxy processes"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
