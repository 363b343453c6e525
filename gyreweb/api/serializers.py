"""Shapes of the API's requests and responses. Plain serializers: the models stay private to their apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers as s

from agents.core import plain_text
from gyreweb.webhooks.topics import NAMES
from scheduler.config import RunConfig, preset_names
from scheduler.simulator.whatif.question import CHOICES, MAX_SEEDS, MIN_SEEDS, SPANS, USUAL_SEEDS


class Problem(s.Serializer[Any]):
    """RFC 9457."""

    type = s.CharField(default="about:blank")
    title = s.CharField()
    status = s.IntegerField()
    detail = s.CharField()
    errors = s.DictField(child=s.CharField(), required=False, help_text="What is wrong, by field.")


class Body(s.Serializer[Any]):
    """A request body. A field that it does not know is refused by name, so that nothing misspelt is passed over."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = [str(name) for name in data if name not in self.fields] if isinstance(data, Mapping) else []
        known = f"unknown field; known fields: {', '.join(self.fields)}"
        problems: dict[str, Any] = {name: [known] for name in unknown}
        problems |= self._hostile(data)
        try:
            values = super().to_internal_value(data)
        except s.ValidationError as error:
            raise s.ValidationError(problems | dict(error.detail)) from error
        if problems:
            raise s.ValidationError(problems)
        return values

    def _hostile(self, data: Any) -> dict[str, Any]:
        """Text in which control characters hide or reorder something."""
        texts = {name for name, field in self.fields.items() if isinstance(field, s.CharField)}
        typed = data.items() if isinstance(data, Mapping) else ()
        found = {
            name: plain_text.problem(value, one_line=name != "reason")
            for name, value in typed
            if name in texts and isinstance(value, str)
        }
        return {name: [f"it {why}"] for name, why in found.items() if why}


class SettingsField(s.DictField):
    """Run settings by name. `scheduler.config.RunConfig` checks them."""


class StoredObject(s.DictField):
    """A JSON object as a row holds it; what is none comes as its `value`."""

    def to_representation(self, value: Any) -> dict[str, Any]:
        return value if isinstance(value, dict) else {"value": value}


class Launch(Body):
    """What to launch: a preset, settings on top of it, and a name."""

    preset = s.CharField(required=False, allow_blank=True, default="", help_text="Empty: the cluster defaults.")
    settings = SettingsField(required=False, default=dict, help_text="Settings that differ from the preset.")
    name = s.CharField(required=False, allow_blank=True, default="", max_length=120)
    project = s.SlugField(required=False, help_text="Needed only by callers with several projects.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The cluster defaults are for eight cells: nobody means them who says nothing at all."""
        if not attrs["preset"] and not attrs["settings"]:
            known = ", ".join(preset_names())
            raise s.ValidationError({"preset": f"say which preset to launch ({known}), or give settings of your own"})
        return attrs


class Reason(Body):
    """Why a person does it."""

    reason = s.CharField(max_length=500, help_text="Kept with the run's events.")


class OptionalReason(Body):
    """Why a person does it, if they say."""

    reason = s.CharField(max_length=500, required=False, allow_blank=True, default="")


class Run(s.Serializer[Any]):
    id = s.IntegerField(source="pk")
    name = s.CharField()
    project = s.CharField(source="project.slug")
    preset = s.CharField()
    task_set = s.CharField(source="task_set.name")
    state = s.CharField()
    state_reason = s.CharField()
    policy_kind = s.CharField()
    seed = s.IntegerField()
    version = s.IntegerField(help_text="Optimizer steps applied.")
    steps = s.SerializerMethodField(help_text="Optimizer steps in all.")
    dispatched = s.IntegerField()
    launched = s.IntegerField()
    finished = s.IntegerField()
    waterlevel = s.IntegerField(help_text="dispatched − finished")
    event_seq = s.IntegerField()
    created_at = s.DateTimeField()
    started_at = s.DateTimeField(allow_null=True)
    finished_at = s.DateTimeField(allow_null=True)

    def get_steps(self, run: Any) -> int:
        return int(RunConfig.readable(run.config)["steps"])


class RunDetail(Run):
    config = StoredObject()
    imported_from = s.CharField(help_text="The export that its rows are from; empty for a run that ran here.")
    dispatch_held = s.BooleanField()


class Event(s.Serializer[Any]):
    seq = s.IntegerField()
    kind = s.CharField()
    payload = StoredObject()
    created_at = s.DateTimeField()


class Events(s.Serializer[Any]):
    results = Event(many=True)
    newest = s.IntegerField(help_text="seq of the newest event; ask again with after= the last seq seen.")


class StepReward(s.Serializer[Any]):
    step = s.IntegerField()
    mean = s.FloatField()
    low = s.FloatField()
    high = s.FloatField()
    num_groups = s.IntegerField()


class Evaluation(s.Serializer[Any]):
    number = s.IntegerField()
    version = s.IntegerField()
    reward_mean = s.FloatField(allow_null=True)
    num_tasks = s.IntegerField()
    num_scored = s.IntegerField()
    by_kind = StoredObject()


class Metrics(s.Serializer[Any]):
    step = s.IntegerField()
    steps = s.IntegerField()
    waterlevel = s.IntegerField()
    room = s.IntegerField()
    cells_in_rollout = s.IntegerField()
    cells_in_training = s.IntegerField()
    heldout_first = s.FloatField(allow_null=True)
    heldout_last = s.FloatField(allow_null=True)
    staleness_mean = s.FloatField(allow_null=True)
    staleness_max = s.IntegerField(allow_null=True)
    finished = s.IntegerField()
    unresolved = s.IntegerField()
    unresolved_share = s.FloatField()
    unresolved_mean_shift = s.FloatField(
        help_text="How much higher the means of affected groups are than if unresolved executions counted as zero."
    )
    unresolved_std_shift = s.FloatField()
    false_forks = s.IntegerField()
    calls = s.IntegerField()
    eta_s = s.FloatField(allow_null=True)
    alarms = s.ListField(child=s.DictField())
    rewards = StepReward(many=True)
    evaluations = Evaluation(many=True)


class Cell(s.Serializer[Any]):
    name = s.SerializerMethodField(help_text="<run>-<index>")
    run = s.IntegerField(source="run_id")
    index = s.IntegerField()
    is_core = s.BooleanField()
    role = s.CharField()
    desired_role = s.CharField()
    phase = s.CharField()
    weight_version = s.IntegerField()
    evaluation = s.IntegerField(allow_null=True)
    num_calls = s.IntegerField()
    tokens_per_s = s.FloatField()
    epoch = s.IntegerField()
    heartbeat_at = s.DateTimeField(allow_null=True)
    role_since = s.DateTimeField(allow_null=True)
    error = s.CharField()

    def get_name(self, cell: Any) -> str:
        return f"{cell.run_id}-{cell.index}"


class CellPatch(Body):
    """What one cell is to do; it becomes an override with an owner, a reason and an expiry."""

    desired_role = s.ChoiceField(["rollout", "training"], required=False)
    suspend = s.BooleanField(required=False, default=False, help_text="Drain the cell and keep it out.")
    reason = s.CharField(max_length=500)
    expires_in_s = s.IntegerField(min_value=1, max_value=14 * 86_400, default=3600)
    unsafe = s.BooleanField(required=False, default=False, help_text="Also against the capacity rule.")


class Override(s.Serializer[Any]):
    id = s.IntegerField(source="pk")
    kind = s.CharField()
    cell_index = s.IntegerField(allow_null=True)
    value = StoredObject()
    unsafe = s.BooleanField()
    owner = s.CharField(source="owner.username")
    reason = s.CharField()
    row_version = s.IntegerField()
    created_at = s.DateTimeField()
    expires_at = s.DateTimeField()
    released_at = s.DateTimeField(allow_null=True)


class OverrideOrder(Body):
    """What a person decides in the scheduler's place."""

    kind = s.ChoiceField(["pin", "forbid_switch", "drain", "hold_dispatch", "setting"])
    cell_index = s.IntegerField(required=False, allow_null=True, default=None, min_value=0, max_value=4096)
    value = s.DictField(required=False, default=dict, help_text='pin: {"role"}; setting: {"name", "value"}')
    unsafe = s.BooleanField(required=False, default=False)


class NewOverride(OverrideOrder):
    """What a person decides in the scheduler's place, with a reason and an expiry."""

    reason = s.CharField(max_length=500)
    expires_in_s = s.IntegerField(min_value=1, max_value=14 * 86_400, default=3600)


class OverridePatch(Body):
    """For how long an override holds from now on."""

    expires_in_s = s.IntegerField(min_value=1, max_value=14 * 86_400)
    row_version = s.IntegerField(required=False, min_value=1, max_value=2**31 - 1)


class PreviewedDecision(s.Serializer[Any]):
    kind = s.CharField(source="kind.value")
    accepted = s.BooleanField()
    cell_index = s.IntegerField(allow_null=True)
    reason_code = s.CharField()
    reason = s.CharField()


class OverrideDifference(s.Serializer[Any]):
    """What `decide` says at this moment, without the override and with it."""

    without = PreviewedDecision(many=True)
    with_it = PreviewedDecision(many=True)


class AskWhatIf(Body):
    """Which settings to try, how far, on how many seeds."""

    span = s.ChoiceField(SPANS, default="rest", help_text="The next hours, the rest of the run, or the whole run.")
    hours = s.FloatField(required=False, min_value=0.0, help_text="With span `hours`: how many.")
    seeds = s.IntegerField(default=USUAL_SEEDS, min_value=MIN_SEEDS, max_value=MAX_SEEDS)
    settings = s.DictField(
        child=s.ListField(child=s.JSONField(), min_length=1, max_length=64),
        help_text="Values to try, by setting; at most two settings with several values. Known: "
        + ", ".join(choice.name for choice in CHOICES)
        + ".",
    )


class NewWebhook(Body):
    """Where messages go, and which."""

    url = s.URLField(max_length=500, help_text="https; http only on the server's own machine.")
    topics = s.ListField(
        child=s.ChoiceField(NAMES), required=False, default=list, help_text="Message types; empty: all."
    )
    project = s.SlugField(required=False, help_text="Needed only by callers with several projects.")


class ApplyWhatIf(Body):
    """Why, and for how long."""

    reason = s.CharField(max_length=500)
    expires_in_s = s.IntegerField(min_value=1, max_value=14 * 86_400, default=3600)


class Decision(s.Serializer[Any]):
    number = s.IntegerField()
    kind = s.CharField()
    cell_index = s.IntegerField(allow_null=True)
    accepted = s.BooleanField()
    reason_code = s.CharField()
    reason = s.CharField()
    params = StoredObject()
    created_at = s.DateTimeField()


class Batch(s.Serializer[Any]):
    number = s.IntegerField()
    burst = s.IntegerField()
    version = s.IntegerField()
    state = s.CharField()
    num_groups = s.IntegerField()
    num_votes = s.IntegerField()
    opened_at = s.DateTimeField()
    sealed_at = s.DateTimeField(allow_null=True)
    stepped_at = s.DateTimeField(allow_null=True)
    metrics = StoredObject()


class Execution(s.Serializer[Any]):
    id = s.IntegerField(source="pk")
    run = s.IntegerField(source="run_id")
    group = s.IntegerField(source="group.number")
    kind = s.CharField(source="group.kind")
    batch = s.IntegerField(source="group.batch", allow_null=True)
    index = s.IntegerField()
    task = s.CharField(source="group.task.name")
    attempt = s.IntegerField()
    state = s.CharField()
    outcome = s.CharField()
    reason_code = s.CharField()
    reward = s.FloatField(allow_null=True)
    advantage = s.FloatField(allow_null=True)
    timed_out = s.BooleanField()
    num_calls = s.IntegerField(help_text="This and the token figures are counted when it ends; 0 until then.")
    num_unique_tokens = s.IntegerField()
    num_sampled_tokens = s.IntegerField()
    num_total_tokens = s.IntegerField()
    num_false_forks = s.IntegerField()
    min_version = s.IntegerField(allow_null=True)
    max_version = s.IntegerField(allow_null=True)
    queued_at = s.DateTimeField(allow_null=True)
    launched_at = s.DateTimeField(allow_null=True)
    finished_at = s.DateTimeField(allow_null=True)
    held_s = s.FloatField()


class ExecutionDetail(Execution):
    reason = s.CharField()
    training_reward = s.FloatField(allow_null=True)
    harness_exit = s.IntegerField(allow_null=True)


class TreeRow(s.Serializer[Any]):
    """A stretch of calls: the outline of the prefix-sharing tree."""

    depth = s.IntegerField()
    role = s.CharField()
    calls = s.ListField(child=s.IntegerField())
    added_tokens = s.IntegerField()
    sampled_tokens = s.IntegerField()
    trained_tokens = s.IntegerField()
    draw = s.IntegerField(allow_null=True)
    why = s.CharField()


class Tree(s.Serializer[Any]):
    execution = s.IntegerField()
    attempt = s.IntegerField()
    rows = TreeRow(many=True)


def paged(name: str, item: type[s.Serializer[Any]]) -> Any:
    """Schema of a page of `item`."""
    fields = {
        "results": item(many=True),
        "next": s.CharField(allow_null=True, help_text="Cursor of the next page; null on the last."),
    }
    return type(f"{name}Page", (s.Serializer,), fields)
