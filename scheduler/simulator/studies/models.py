"""Simulated runs that somebody saved, for the dashboard. They never touch live rows."""

from django.conf import settings as site
from django.db import models

from agents.models import Figure, Project, Run


class Simulation(models.Model):
    """One scenario under several policies and seeds: what `manage.py simulate --save` had run."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="simulations")
    name = models.CharField(max_length=120, help_text="Preset or file it began with.")
    settings = models.JSONField(help_text="scheduler.core.settings.Settings, complete.")
    workload = models.JSONField(help_text="scheduler.simulator.core.Workload, complete.")
    changes = models.JSONField(default=dict, help_text="What was set or swept, and so differs from the preset.")
    num_recorded = models.PositiveIntegerField(default=0, help_text="Recorded executions replayed; 0: all drawn.")
    seeds = models.JSONField(help_text="In the order given.")
    summary = models.JSONField(help_text="scheduler.simulator.studies.summary.Summary.to_json")
    command = models.TextField(help_text="Shell command that runs it again.")
    fitted_from = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="simulations", help_text="Live run it fits."
    )
    created_by = models.ForeignKey(site.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-id"])]

    def __str__(self) -> str:
        return f"{self.name} (simulated) #{self.pk}"


class SimulatedRun(models.Model):
    """One policy and seed. The first seed of a policy keeps its series and decisions."""

    simulation = models.ForeignKey(Simulation, on_delete=models.CASCADE, related_name="runs")
    policy_kind = models.CharField(max_length=20)
    seed = models.BigIntegerField()
    training_cells = models.PositiveIntegerField(null=True, blank=True, help_text="The best split, of async-best.")
    hours = Figure()
    result = models.JSONField(help_text="Figures, as `simulate --json` prints them.")
    series = models.JSONField(default=dict, help_text="waterlevel, lanes and step_rows; seconds from dispatch.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["simulation", "policy_kind", "seed"], name="simulated_run_once"),
        ]

    def __str__(self) -> str:
        return f"{self.policy_kind}, seed {self.seed} (simulated)"


class SimulatedDecision(models.Model):
    """One result of `decide` in a simulated run, with the columns of a live decision; `at_s` is simulated time."""

    run = models.ForeignKey(SimulatedRun, on_delete=models.CASCADE, related_name="decisions")
    number = models.PositiveBigIntegerField()
    evaluation_number = models.PositiveBigIntegerField()
    at_s = Figure(help_text="Simulated seconds since dispatch.")
    kind = models.CharField(max_length=32)
    cell_index = models.IntegerField(null=True, blank=True)
    accepted = models.BooleanField()
    reason_code = models.CharField(max_length=40)
    reason = models.TextField()
    params = models.JSONField(default=dict)
    snapshot = models.JSONField(null=True, blank=True, help_text="On the first decision of an evaluation.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="simulated_decision_number_once")]
