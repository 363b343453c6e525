"""Cells, bursts, decisions, overrides, evaluations (docs/algorithms.md §9, §10)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models import Figure, Run
from scheduler.simulator.studies.models import SimulatedDecision, SimulatedRun, Simulation  # noqa: F401


class Cell(models.Model):
    """A set of GPUs with one training layout. `desired_role` is set by the scheduler, `role` by the agent."""

    class Role(models.TextChoices):
        STARTING = "starting"
        ROLLOUT = "rollout"
        TRAINING = "training"
        SWITCHING = "switching"
        LOST = "lost"
        STOPPED = "stopped"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="cells")
    index = models.PositiveIntegerField()
    is_core = models.BooleanField(default=False)
    epoch = models.PositiveIntegerField(default=0, help_text="Raised at every launch; older epochs are fenced.")
    desired_role = models.CharField(max_length=10, choices=Role, default=Role.ROLLOUT)
    role = models.CharField(max_length=10, choices=Role, default=Role.STOPPED)
    phase = models.CharField(max_length=32, blank=True, help_text="Step inside a switch, e.g. drain, pull, load.")
    weight_version = models.IntegerField(default=-1, help_text="Version verified in the engine; -1 before the first.")
    weight_hash = models.CharField(max_length=64, blank=True)
    evaluation = models.PositiveIntegerField(null=True, blank=True, help_text="Reserved for this evaluation number.")
    engine_url = models.CharField(max_length=200, blank=True)
    engine_key = models.CharField(max_length=64, blank=True, help_text="Shared secret of the engine's control port.")
    transfer_address = models.CharField(max_length=200, blank=True)
    transfer_slots = models.JSONField(
        default=dict, help_text="Core only: memory where each satellite's epoch writes its gradient sum."
    )
    pid = models.IntegerField(null=True, blank=True)
    num_calls = models.PositiveIntegerField(default=0, help_text="Calls running or waiting in the engine.")
    num_kv_tokens = models.PositiveBigIntegerField(default=0)
    tokens_per_s = Figure(default=0.0)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    role_since = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "index"], name="cell_index_once_per_run"),
            models.UniqueConstraint(fields=["run"], condition=Q(is_core=True), name="one_core_per_run"),
        ]

    def __str__(self) -> str:
        return "core" if self.is_core else f"cell {self.index}"


class RoleChange(models.Model):
    class State(models.TextChoices):
        STARTED = "started"
        FINISHED = "finished"
        FAILED = "failed"

    cell = models.ForeignKey(Cell, on_delete=models.CASCADE, related_name="role_changes")
    epoch = models.PositiveIntegerField()
    from_role = models.CharField(max_length=10)
    to_role = models.CharField(max_length=10)
    state = models.CharField(max_length=8, choices=State, default=State.STARTED)
    phases = models.JSONField(default=list, help_text="[[phase, seconds], …] in order.")
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)


class Burst(models.Model):
    """Groups dispatched at once; S·B where bursts are strict. Its bounds are stored: settings may change later."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="bursts")
    number = models.PositiveIntegerField()
    version = models.PositiveIntegerField(help_text="Weight version at dispatch.")
    num_groups = models.PositiveIntegerField()
    groups_per_batch = models.PositiveIntegerField(help_text="B")
    executions_per_group = models.PositiveIntegerField(help_text="N")
    max_staleness = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="burst_number_once_per_run")]


class Evaluation(models.Model):
    """Held-out executions at one weight version, on one reserved cell, outside D, L and F."""

    class State(models.TextChoices):
        RUNNING = "running"
        FINISHED = "finished"
        CANCELLED = "cancelled"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="evaluations")
    number = models.PositiveIntegerField()
    version = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=State, default=State.RUNNING)
    num_tasks = models.PositiveIntegerField()
    num_scored = models.PositiveIntegerField(default=0)
    reward_mean = Figure(null=True, blank=True)
    by_kind = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="evaluation_number_once_per_run"),
            models.UniqueConstraint(fields=["run", "version"], name="one_evaluation_per_version"),
        ]


class Decision(models.Model):
    """One result of `decide`, also the refusals. `snapshot` replays it; equal repeats are not stored again."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="decisions")
    number = models.PositiveBigIntegerField()
    evaluation_number = models.PositiveBigIntegerField(help_text="Decisions of one call of `decide` share it.")
    kind = models.CharField(max_length=32)
    cell_index = models.IntegerField(null=True, blank=True)
    accepted = models.BooleanField(help_text="False: considered and refused; `reason` says why not.")
    reason_code = models.CharField(max_length=40)
    reason = models.TextField()
    params = models.JSONField(default=dict)
    snapshot = models.JSONField(null=True, blank=True, help_text="On the first decision of an evaluation.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="decision_number_once_per_run")]


class Override(models.Model):
    """A person's word over the scheduler's. Released by hand or at `expires_at`."""

    class Kind(models.TextChoices):
        PIN = "pin"  # value: role
        FORBID_SWITCH = "forbid_switch"
        DRAIN = "drain"
        HOLD_DISPATCH = "hold_dispatch"
        SETTING = "setting"  # value: {name, value}

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="overrides")
    kind = models.CharField(max_length=16, choices=Kind)
    cell_index = models.IntegerField(null=True, blank=True)
    value = models.JSONField(default=dict)
    unsafe = models.BooleanField(default=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    reason = models.TextField()
    row_version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(reason=""), name="override_has_a_reason")]


class WhatIf(models.Model):
    """A question to the simulator about a run: what would other settings do? Worked on under a lease.

    `inputs` is what the answer rests on, read once when the work begins, so that every point is compared on the same
    and a worker that takes over goes on with it.
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        CANCELLED = "cancelled"
        INTERRUPTED = "interrupted"  # its workers died; a person may have it go on
        FAILED = "failed"  # `error` says why

    #: States in which a worker has something to do.
    OPEN_STATES = (State.QUEUED, State.RUNNING)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="what_ifs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    state = models.CharField(max_length=12, choices=State, default=State.QUEUED)
    question = models.JSONField(help_text="scheduler.simulator.whatif.question.Question.")
    inputs = models.BinaryField(default=b"", help_text="scheduler.simulator.whatif.inputs.Inputs, compressed JSON.")
    fit = models.JSONField(default=dict, help_text="What the durations rest on, recorded against simulated.")
    target_version = models.PositiveIntegerField(null=True, blank=True, help_text="Every point is run up to it.")
    num_done = models.PositiveIntegerField(default=0, help_text="Simulations done.")
    num_to_do = models.PositiveIntegerField(help_text="Simulations in all: points x seeds.")
    num_workers = models.PositiveIntegerField(default=0, help_text="Workers that have taken it up so far.")
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "what-if"
        verbose_name_plural = "what-ifs"
        indexes = [
            models.Index(fields=["run", "-id"]),
            models.Index(fields=["state"], condition=Q(state__in=["queued", "running"]), name="what_ifs_to_do"),
        ]

    def __str__(self) -> str:
        return f"what-if {self.pk} about run {self.run_id}"


class WhatIfPoint(models.Model):
    """One combination of settings of a what-if, with what each seed came to. Point 0 is the run as it is."""

    what_if = models.ForeignKey(WhatIf, on_delete=models.CASCADE, related_name="points")
    number = models.PositiveIntegerField()
    changes = models.JSONField(default=dict, help_text="Settings that differ from the run's own.")
    results = models.JSONField(default=list, help_text="Per seed: figures, or why the simulation could not go on.")

    class Meta:
        verbose_name = "what-if point"
        constraints = [models.UniqueConstraint(fields=["what_if", "number"], name="what_if_point_number_once")]
