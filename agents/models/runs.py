"""A run and its event log. Counters obey F <= L <= D in the database (docs/algorithms.md §9)."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from agents.models.projects import Project, TaskSet


class Run(models.Model):
    class State(models.TextChoices):
        QUEUED = "queued"
        STARTING = "starting"
        RUNNING = "running"
        PAUSED = "paused"
        STOPPING = "stopping"
        STOPPED = "stopped"
        FINISHED = "finished"

    #: States from which the run can still go on.
    LIVE_STATES = (State.QUEUED, State.STARTING, State.RUNNING, State.PAUSED, State.STOPPING)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="runs")
    task_set = models.ForeignKey(TaskSet, on_delete=models.PROTECT, related_name="runs")
    name = models.CharField(max_length=120)
    preset = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    state_reason = models.TextField(blank=True, help_text="Why it is paused or stopped; says what to do.")
    config = models.JSONField(help_text="agents.config.RunConfig, complete.")
    config_version = models.PositiveIntegerField(default=1)
    seed = models.BigIntegerField()
    policy_kind = models.CharField(max_length=20)
    imported_from = models.CharField(
        max_length=200, blank=True, help_text="The export whose rows these are; such a run never goes on."
    )
    idempotency_key = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    version = models.PositiveIntegerField(default=0, help_text="Weight version v: optimizer steps applied.")
    dispatched = models.PositiveIntegerField(default=0)
    launched = models.PositiveIntegerField(default=0)
    finished = models.PositiveIntegerField(default=0)
    dispatch_cursor = models.PositiveIntegerField(default=0, help_text="Groups dispatched so far; picks the next task.")
    dispatch_held = models.BooleanField(default=False, help_text="No new bursts: by a person or an alarm.")
    event_seq = models.BigIntegerField(default=0, help_text="seq of the newest RunEvent.")

    class Meta:
        indexes = [models.Index(fields=["project", "-id"])]
        constraints = [
            models.CheckConstraint(condition=Q(finished__lte=F("launched")), name="run_finished_le_launched"),
            models.CheckConstraint(condition=Q(launched__lte=F("dispatched")), name="run_launched_le_dispatched"),
            models.UniqueConstraint(
                fields=["project", "idempotency_key"], condition=~Q(idempotency_key=""), name="run_idempotency_key_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} #{self.pk}"

    @property
    def waterlevel(self) -> int:
        """W = D - F: executions still owed a result."""
        return self.dispatched - self.finished


class RunEvent(models.Model):
    """The run's log: `seq` rises by one per event, without gaps, in commit order."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=32)
    payload = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="run_event_seq_once")]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.seq} {self.kind}"
