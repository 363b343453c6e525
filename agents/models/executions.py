"""Groups, executions and their assessments (docs/algorithms.md §1, §5)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models.figures import Figure
from agents.models.projects import Task
from agents.models.proxies import ProxyProcess
from agents.models.runs import Run


class Group(models.Model):
    """The N executions of one task dispatched together. `kind` evaluation stays outside D, L, F and batches."""

    class Kind(models.TextChoices):
        TRAINING = "training"
        EVALUATION = "evaluation"

    class State(models.TextChoices):
        DISPATCHED = "dispatched"
        READY = "ready"  # all finished and usable
        VOID = "void"  # all finished, fewer votes than min_votes
        ADMITTED = "admitted"  # in the ledger of an open or sealed batch
        CONSUMED = "consumed"  # its batch has stepped

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="groups")
    task = models.ForeignKey(Task, on_delete=models.PROTECT)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.TRAINING)
    number = models.PositiveIntegerField(help_text="Dispatch order within (run, kind).")
    burst = models.PositiveIntegerField(null=True, blank=True, help_text="Burst number; scheduler.Burst.")
    evaluation = models.PositiveIntegerField(
        null=True, blank=True, help_text="Evaluation number; scheduler.Evaluation."
    )
    state = models.CharField(max_length=10, choices=State, default=State.DISPATCHED)
    ready_order = models.PositiveIntegerField(null=True, blank=True, help_text="Order in which groups became ready.")
    num_votes = models.PositiveIntegerField(default=0)
    reward_mean = Figure(null=True, blank=True)
    reward_std = Figure(null=True, blank=True)
    batch = models.PositiveIntegerField(null=True, blank=True, help_text="Number of the batch that admitted it.")
    created_at = models.DateTimeField(auto_now_add=True)
    ready_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["run", "kind", "state"])]
        constraints = [models.UniqueConstraint(fields=["run", "kind", "number"], name="group_number_once_per_run")]

    def __str__(self) -> str:
        return f"{self.kind} group {self.number}"


class Execution(models.Model):
    """One run of the harness on one task. An interrupted one starts again as attempt + 1 in the same row."""

    class State(models.TextChoices):
        DISPATCHED = "dispatched"  # owed, not yet allowed to start
        QUEUED = "queued"  # the scheduler allows its launch; a worker's wake-up is on its way
        RUNNING = "running"  # leased: preparing or in the harness
        EVALUATING = "evaluating"  # the harness ended; the verifier runs
        FINISHED = "finished"
        CANCELLED = "cancelled"

    class Outcome(models.TextChoices):
        COMPLETE = "complete"  # resolved, complete
        PARTIAL = "partial"  # resolved, partial
        NO_WORK = "no-work"
        UNRESOLVED = "unresolved"
        CANCELLED = "cancelled"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="executions")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="executions")
    index = models.PositiveIntegerField(help_text="0 … N-1 within its group.")
    attempt = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=10, choices=State, default=State.DISPATCHED)
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True)
    reason_code = models.CharField(max_length=40, blank=True)
    reason = models.TextField(blank=True)
    reward = Figure(null=True, blank=True)
    training_reward = Figure(null=True, blank=True)
    advantage = Figure(null=True, blank=True, help_text="Set at admission.")
    exclusions = models.JSONField(
        default=list, help_text="[[call, reason], …]: calls that selection passed over at admission."
    )
    num_malformed_calls = models.PositiveIntegerField(default=0)
    hit_turn_limit = models.BooleanField(default=False)
    timed_out = models.BooleanField(default=False)

    key_hash = models.BinaryField(max_length=32, null=True, blank=True, help_text="SHA-256 of the attempt's proxy key.")
    proxy = models.ForeignKey(
        ProxyProcess,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="executions",
        help_text="The proxy that records the attempt, written with its lease; none: any proxy may.",
    )
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    lost_attempts = models.PositiveIntegerField(default=0, help_text="How often its worker or evaluator was lost.")
    sandbox = models.JSONField(default=dict, help_text="What a replacement worker needs to adopt the sandbox.")

    num_calls = models.PositiveIntegerField(default=0)
    num_unique_tokens = models.PositiveBigIntegerField(default=0)
    num_sampled_tokens = models.PositiveBigIntegerField(default=0)
    num_total_tokens = models.PositiveBigIntegerField(default=0, help_text="Sum over calls of input + output tokens.")
    num_false_forks = models.PositiveIntegerField(default=0)
    min_version = models.IntegerField(null=True, blank=True, help_text="Oldest weight version that sampled a token.")
    max_version = models.IntegerField(null=True, blank=True)

    queued_at = models.DateTimeField(null=True, blank=True)
    launched_at = models.DateTimeField(null=True, blank=True)
    harness_started_at = models.DateTimeField(null=True, blank=True)
    harness_ended_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    held_s = Figure(default=0.0, help_text="Time the proxy held calls for scheduling; not the agent's.")
    harness = models.JSONField(default=dict, help_text="Name, version and package checksums of the harness that ran.")
    harness_exit = models.IntegerField(null=True, blank=True)
    harness_log = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["run", "state"]),
            models.Index(fields=["run", "-id"]),
            models.Index(
                fields=["lease_expires_at"], condition=Q(lease_expires_at__isnull=False), name="execution_leases"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["group", "index"], name="execution_index_once_per_group"),
            models.UniqueConstraint(
                fields=["key_hash"], condition=Q(key_hash__isnull=False), name="execution_key_once"
            ),
            models.CheckConstraint(
                condition=~Q(state="finished") | ~Q(outcome=""), name="finished_execution_has_an_outcome"
            ),
            models.CheckConstraint(
                condition=~Q(outcome__in=["unresolved", "cancelled"]) | Q(reward__isnull=True),
                name="unresolved_is_not_zero",
            ),
        ]

    def __str__(self) -> str:
        return f"execution {self.pk}"


class Assessment(models.Model):
    """One verdict of the evaluator. A re-assessment adds a row; the old one stays.

    `in_force`: the execution's outcome and reward rest on it. One verdict per attempt that ended is.
    """

    class Status(models.TextChoices):
        SCORED = "scored"
        NO_WORK = "no-work"
        UNRESOLVED = "unresolved"

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="assessments")
    attempt = models.PositiveIntegerField()
    status = models.CharField(max_length=10, choices=Status)
    reason_code = models.CharField(max_length=40)
    reason = models.TextField(blank=True)
    value = Figure(null=True, blank=True)
    rewards = models.JSONField(default=dict)
    flags = models.JSONField(default=list)
    exit_code = models.IntegerField(null=True, blank=True)
    log = models.TextField(blank=True)
    duration_s = Figure(default=0.0)
    in_force = models.BooleanField(default=True, help_text="The execution's outcome and reward rest on it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["execution", "-id"])]


class KeptWorkspace(models.Model):
    """The files that an attempt left, as they were before its evaluator saw them: what a re-assessment works on.

    `path` is an archive on `host`; empty when nothing was kept, and `problem` says why.
    """

    execution = models.OneToOneField(Execution, on_delete=models.CASCADE, related_name="workspace")
    attempt = models.PositiveIntegerField()
    host = models.CharField(max_length=255)
    path = models.TextField(blank=True)
    num_bytes = models.PositiveBigIntegerField(default=0)
    problem = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["created_at"], condition=Q(deleted_at__isnull=True), name="workspaces_on_disk")]


class Reassessment(models.Model):
    """A person's request that the evaluator runs again, with its reason: the audit of every verdict after the first."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"  # `assessment` is its verdict
        FAILED = "failed"  # `error` says why there is none

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="reassessments")
    attempt = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    reason = models.TextField()
    error = models.TextField(blank=True)
    effect = models.TextField(blank=True, help_text="What the verdict changed, or why it changed nothing.")
    assessment = models.OneToOneField(
        Assessment, null=True, blank=True, on_delete=models.CASCADE, related_name="reassessment"
    )
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["execution"], condition=Q(state__in=["queued", "running"]), name="one_reassessment_at_a_time"
            )
        ]
