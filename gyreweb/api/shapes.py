"""Shapes of groups, verdicts, selections and reports, beside those of `gyreweb.api.serializers`."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from gyreweb.api.serializers import StoredObject


class Exclusion(s.Serializer[Any]):
    """Statistics of the votes as they are, and with each unresolved execution as a vote of 0."""

    num_votes = s.IntegerField()
    num_unresolved = s.IntegerField()
    mean = s.FloatField(allow_null=True)
    std = s.FloatField(allow_null=True)
    mean_as_zero = s.FloatField(allow_null=True)
    std_as_zero = s.FloatField(allow_null=True)
    mean_shift = s.FloatField(help_text="mean − mean_as_zero")
    std_shift = s.FloatField()


class Group(s.Serializer[Any]):
    id = s.IntegerField(source="group.pk")
    run = s.IntegerField(source="group.run_id")
    kind = s.CharField(source="group.kind")
    number = s.IntegerField(source="group.number")
    task = s.CharField(source="group.task.name")
    burst = s.IntegerField(source="group.burst", allow_null=True)
    evaluation = s.IntegerField(source="group.evaluation", allow_null=True)
    state = s.CharField(source="group.state")
    batch = s.IntegerField(source="group.batch", allow_null=True)
    num_executions = s.IntegerField()
    num_ended = s.IntegerField()
    rewards = s.ListField(child=s.FloatField(allow_null=True), help_text="In order of the executions; null: none.")
    unresolved = Exclusion(source="effect", help_text="What leaving unresolved executions out does.")


class Assessment(s.Serializer[Any]):
    id = s.IntegerField(source="pk")
    attempt = s.IntegerField()
    status = s.CharField()
    reason_code = s.CharField()
    reason = s.CharField()
    value = s.FloatField(allow_null=True)
    rewards = StoredObject()
    flags = s.ListField(child=s.CharField())
    exit_code = s.IntegerField(allow_null=True)
    duration_s = s.FloatField()
    in_force = s.BooleanField(help_text="The execution's outcome and reward rest on it.")
    created_at = s.DateTimeField()
    log = s.CharField()
    asked_by = s.SerializerMethodField(help_text="Who asked for it; null for the first verdict.")
    asked_why = s.SerializerMethodField()
    effect = s.SerializerMethodField(help_text="What a re-assessment changed, or why it changed nothing.")

    def get_asked_by(self, row: Any) -> str | None:
        request = getattr(row, "reassessment", None)
        return request.owner.get_username() if request and request.owner else None

    def get_asked_why(self, row: Any) -> str | None:
        request = getattr(row, "reassessment", None)
        return request.reason if request else None

    def get_effect(self, row: Any) -> str | None:
        request = getattr(row, "reassessment", None)
        return request.effect if request else None


class Reassessment(s.Serializer[Any]):
    """A request for another verdict. It is over when `state` is `done` or `failed`."""

    id = s.IntegerField(source="pk")
    execution = s.IntegerField(source="execution_id")
    attempt = s.IntegerField()
    state = s.CharField(help_text="queued, running, done or failed")
    reason = s.CharField()
    error = s.CharField(help_text="Why there is no verdict.")
    effect = s.CharField()
    assessment = s.IntegerField(source="assessment_id", allow_null=True)
    created_at = s.DateTimeField()
    finished_at = s.DateTimeField(allow_null=True)


class Asked(s.Serializer[Any]):
    """What became of a request for many verdicts."""

    num_queued = s.IntegerField()
    refused = s.DictField(child=s.IntegerField(), help_text="Why others were not queued, with how many.")
    left_out = s.IntegerField(help_text="Beyond the limit of one request: ask again.")


class Assessments(s.Serializer[Any]):
    results = Assessment(many=True, help_text="Newest first.")
    reassessments = Reassessment(many=True, help_text="Newest first.")
    may_be_reassessed = s.BooleanField()
    why_not = s.CharField(help_text="Empty when it may be.")


class Candidate(s.Serializer[Any]):
    call = s.IntegerField()
    count = s.IntegerField(help_text="Trainable tokens on its path.")
    probability = s.FloatField()


class Draw(s.Serializer[Any]):
    number = s.IntegerField()
    role = s.CharField()
    candidates = Candidate(many=True)
    random = s.FloatField()
    chosen_call = s.IntegerField()


class PassedOver(s.Serializer[Any]):
    call = s.IntegerField()
    reason_code = s.CharField()
    reason = s.CharField()


class Bounds(s.Serializer[Any]):
    j_max = s.IntegerField()
    context_tokens = s.IntegerField()
    role_order = s.ListField(child=s.CharField())
    seed = s.CharField()
    batch = s.IntegerField()
    num_leaves = s.IntegerField()
    num_selectable_tokens = s.IntegerField()
    num_selected_tokens = s.IntegerField()
    cost_every_call_tokens = s.IntegerField()
    cost_every_leaf_tokens = s.IntegerField()
    cost_uncapped_tokens = s.IntegerField()
    cost_selected_tokens = s.IntegerField()
    cost_tree_tokens = s.IntegerField()


class Difference(s.Serializer[Any]):
    where = s.CharField()
    recorded = s.JSONField(allow_null=True)
    replayed = s.JSONField(allow_null=True)


class Selection(s.Serializer[Any]):
    """What selection did with an execution, and whether it comes out again from the recorded calls."""

    execution = s.IntegerField()
    attempt = s.IntegerField()
    bounds = Bounds(allow_null=True, help_text="Null before a batch has admitted the group.")
    draws = Draw(many=True)
    passed_over = PassedOver(many=True)
    replays_equal = s.BooleanField()
    first_difference = Difference(allow_null=True)


class RecordedCall(s.Serializer[Any]):
    execution = s.IntegerField(source="execution_id")
    attempt = s.IntegerField()
    number = s.IntegerField()
    role = s.CharField()
    state = s.CharField()
    reason = s.CharField(source="error")
    branch_reason = s.CharField()
    input_tokens = s.IntegerField()
    output_tokens = s.IntegerField()
    started_at = s.DateTimeField()


class FalseFork(s.Serializer[Any]):
    """Where a call leaves the recorded tokens of its conversation."""

    call = RecordedCall()
    of_call = s.IntegerField(allow_null=True, help_text="The recorded call that it should have extended.")
    position = s.IntegerField(help_text="First position that differs.")
    expected_ids = s.ListField(child=s.IntegerField(), source="expected")
    found_ids = s.ListField(child=s.IntegerField(), source="found")
    expected_text = s.CharField()
    found_text = s.CharField()


class Saving(s.Serializer[Any]):
    what = s.CharField()
    baseline = s.CharField(help_text="What the tokens are compared with.")
    baseline_tokens = s.IntegerField()
    tokens = s.IntegerField()
    saved_tokens = s.IntegerField()
    saved_share = s.FloatField()
    factor = s.FloatField(allow_null=True)


class TokenCounts(s.Serializer[Any]):
    executions = s.IntegerField()
    calls = s.IntegerField()
    recorded = s.IntegerField(help_text="Input + output of every call.")
    unique = s.IntegerField()
    sampled = s.IntegerField()
    admitted_executions = s.IntegerField()
    sampled_admitted = s.IntegerField()
    selectable = s.IntegerField(help_text="Sampled tokens on the path of a leaf, of admitted executions.")
    selected = s.IntegerField(help_text="Targets of trained trajectories.")
    trajectories = s.IntegerField()
    dummies = s.IntegerField()


class UnresolvedTotals(s.Serializer[Any]):
    num_executions = s.IntegerField()
    num_unresolved = s.IntegerField()
    share = s.FloatField()
    num_groups = s.IntegerField()
    num_affected = s.IntegerField()
    num_lost = s.IntegerField(help_text="Affected groups without any vote.")
    mean_shift = s.FloatField(help_text="Of an affected group's mean, on average, against counting them as zero.")
    max_mean_shift = s.FloatField()
    std_shift = s.FloatField()


class Report(s.Serializer[Any]):
    run = s.IntegerField()
    tokens = TokenCounts()
    savings = Saving(many=True)
    unresolved = UnresolvedTotals()
    outcomes = s.DictField(child=s.IntegerField())
    reason_codes = s.DictField(child=s.IntegerField())
    draws_by_role = s.DictField(child=s.IntegerField())
    exclusions = s.DictField(child=s.IntegerField(), help_text="Calls that selection passed over, by reason.")
    quarantined = s.DictField(child=s.IntegerField(), help_text="Quarantined calls by reason.")
    false_forks = s.IntegerField()
    false_fork_rate = s.FloatField(help_text="Of all recorded calls.")
