"""What selection drew, with enough to replay it (docs/algorithms.md §7)."""

from django.db import models

from agents.models.executions import Execution
from agents.models.figures import Figure


class SelectionRecord(models.Model):
    """Under which bounds selection saw an execution, and what its tokens would have cost otherwise, in tokens.

    The `cost_…` columns count tokens that go through forward and backward (agents.core.costs).
    """

    execution = models.OneToOneField(Execution, on_delete=models.CASCADE, related_name="selection")
    attempt = models.PositiveIntegerField()
    batch = models.PositiveIntegerField()
    seed = models.CharField(max_length=120)
    j_max = models.PositiveIntegerField()
    context_tokens = models.PositiveIntegerField()
    role_order = models.JSONField(help_text="Classes, highest first.")
    num_leaves = models.PositiveIntegerField(help_text="Calls that selection could draw.")
    num_drawn = models.PositiveIntegerField()
    num_selectable_tokens = models.PositiveBigIntegerField(help_text="Sampled tokens on the path of some leaf.")
    num_selected_tokens = models.PositiveBigIntegerField(help_text="Targets of the trajectories that are trained.")
    cost_every_call_tokens = models.PositiveBigIntegerField()
    cost_every_leaf_tokens = models.PositiveBigIntegerField()
    cost_uncapped_tokens = models.PositiveBigIntegerField()
    cost_selected_tokens = models.PositiveBigIntegerField()
    cost_tree_tokens = models.PositiveBigIntegerField()


class Draw(models.Model):
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="draws")
    attempt = models.PositiveIntegerField()
    number = models.PositiveIntegerField()
    role = models.CharField(max_length=20)
    candidates = models.JSONField(help_text="[{call, count, probability}, …] in order of call number.")
    random = Figure()
    chosen_call = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["execution", "attempt", "number"], name="draw_number_once")]


class Trajectory(models.Model):
    """A drawn leaf. `targets` are the token positions on its path that are trained, as [start, end) runs."""

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="trajectories")
    attempt = models.PositiveIntegerField()
    number = models.PositiveIntegerField(help_text="Draw that made it; 0 also for the dummy of no-work.")
    leaf_call = models.PositiveIntegerField(null=True, blank=True)
    role = models.CharField(max_length=20, blank=True)
    num_tokens = models.PositiveIntegerField()
    num_targets = models.PositiveIntegerField()
    targets = models.JSONField(default=list)
    batch = models.PositiveIntegerField(null=True, blank=True, help_text="Number of the batch that admitted it.")

    class Meta:
        verbose_name_plural = "trajectories"
        constraints = [
            models.UniqueConstraint(fields=["execution", "attempt", "number"], name="trajectory_number_once")
        ]
