"""The tables of an export and their columns: one description for Parquet, JSON Lines, CSV, the importer and the docs.

Rows name their execution by `group_kind`, `group`, `index` and `attempt`, which mean the same wherever they are read.
"""

from __future__ import annotations

from dataclasses import dataclass

FORMAT_VERSION = 1

#: What a column holds. Parquet: JSON is text. JSON Lines: it is a value; times are ISO 8601 in UTC; NaN is null.
KINDS = (
    "int", "float", "bool", "text", "time", "json", "int32s", "float32s", "bools", "texts", "spans", "exclusions",
    "candidates",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """`field`: the model field that the importer writes it to and the exporter reads it from; empty: derived."""

    name: str
    kind: str
    description: str
    field: str = ""


@dataclass(frozen=True)
class Table:
    name: str
    description: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


def _own(name: str, kind: str, description: str) -> Column:
    """A column that is a field of the same name."""
    return Column(name, kind, description, name)


WHICH = (
    Column("group_kind", "text", "`training` or `evaluation`."),
    Column("group", "int", "Number of the group within (run, group_kind)."),
    Column("index", "int", "0 … N-1 within the group."),
    Column("attempt", "int", "Attempt that ended; earlier ones are not exported."),
)

TASKS = Table(
    "tasks",
    "Tasks of the exported groups.",
    (
        _own("name", "text", "Name of the task within its set."),
        _own("split", "text", "`train` or `heldout`."),
        _own("kind", "text", "Kind shown on the dashboard; may be empty."),
        _own("digest", "text", "SHA-256 of the task's files."),
    ),
)

GROUPS = Table(
    "groups",
    "The executions of one task that were dispatched together.",
    (
        Column("group_kind", "text", "`training` or `evaluation`.", "kind"),
        Column("group", "int", "Number within (run, group_kind).", "number"),
        Column("task", "text", "Name of its task."),
        _own("burst", "int", "Burst that dispatched it; null for evaluations."),
        _own("evaluation", "int", "Evaluation it belongs to; null for training."),
        _own("state", "text", "`dispatched`, `ready`, `void`, `admitted` or `consumed`."),
        _own("ready_order", "int", "Order in which groups became ready."),
        _own("num_votes", "int", "Executions with a reward."),
        Column("num_unresolved", "int", "Executions without a verdict; they have no vote."),
        _own("reward_mean", "float", "Mean training reward of the votes."),
        _own("reward_std", "float", "Their sample standard deviation."),
        Column("reward_mean_as_zero", "float", "The mean if unresolved executions counted as zero."),
        Column("reward_std_as_zero", "float", "The deviation if unresolved executions counted as zero."),
        _own("batch", "int", "Batch that admitted it."),
        _own("created_at", "time", "When it was dispatched."),
        _own("ready_at", "time", "When its last execution ended."),
    ),
)

_SELECTION = (
    ("batch", "int", "Batch that admitted it; null: not selected from, and so are the other `selection_` columns."),
    ("seed", "text", "Seed of its draws."),
    ("j_max", "int", "Most trajectories that could be drawn."),
    ("context_tokens", "int", "Longest path that could be drawn."),
    ("role_order", "texts", "Classes, highest first."),
    ("num_leaves", "int", "Calls that could be drawn."),
    ("num_drawn", "int", "Trajectories drawn."),
    ("num_selectable_tokens", "int", "Sampled tokens on the path of some leaf."),
    ("num_selected_tokens", "int", "Targets that are trained."),
    ("cost_every_call_tokens", "int", "Tokens to train if every call were trained as its own full sequence."),
    ("cost_every_leaf_tokens", "int", "The same for every leaf."),
    ("cost_uncapped_tokens", "int", "The same for the trajectories drawn without J_max."),
    ("cost_selected_tokens", "int", "The same for the trajectories that are trained."),
    ("cost_tree_tokens", "int", "Each unique token of those trajectories once."),
)
#: Columns of the selection's record within `executions`.
SELECTION = tuple(Column(f"selection_{name}", kind, text, name) for name, kind, text in _SELECTION)

EXECUTIONS = Table(
    "executions",
    "One row per execution that has ended.",
    (
        *WHICH[:3],
        _own("attempt", "int", "Attempt that ended; earlier ones are not exported."),
        Column("task", "text", "Name of its task."),
        _own("state", "text", "`finished` or `cancelled`."),
        _own("outcome", "text", "`complete`, `partial`, `no-work`, `unresolved` or `cancelled`."),
        _own("reason_code", "text", "Why that outcome."),
        _own("reason", "text", "The same in words."),
        _own("reward", "float", "Evaluator's reward; null exactly where there is no vote."),
        _own("training_reward", "float", "Reward after the penalty for malformed calls."),
        _own("advantage", "float", "Set when a batch admitted the group."),
        _own("exclusions", "exclusions", "Calls that selection passed over, each with its reason."),
        _own("num_malformed_calls", "int", "As the harness reported."),
        _own("hit_turn_limit", "bool", "As the harness reported."),
        _own("timed_out", "bool", "A time limit stopped the harness."),
        _own("num_calls", "int", "Recorded calls."),
        _own("num_unique_tokens", "int", "Tokens of the prefix-sharing tree, each once."),
        _own("num_sampled_tokens", "int", "Of those, sampled by the policy."),
        _own("num_total_tokens", "int", "Input + output tokens summed over calls."),
        _own("num_false_forks", "int", "Calls that left recorded tokens which they should have extended."),
        _own("min_version", "int", "Oldest weight version that sampled a token."),
        _own("max_version", "int", "Newest."),
        _own("queued_at", "time", "Allowed to start."),
        _own("launched_at", "time", "Taken by a worker."),
        _own("harness_started_at", "time", "Harness started."),
        _own("harness_ended_at", "time", "Harness ended or was stopped."),
        _own("finished_at", "time", "Result written."),
        _own("held_s", "float", "Seconds that calls were held for scheduling."),
        _own("harness_exit", "int", "Exit code of the harness."),
        _own("harness", "json", "Name, version and package checksums of the harness that ran."),
        *SELECTION,
    ),
)

ASSESSMENTS = Table(
    "assessments",
    "Verdicts of the evaluator, re-assessments among them.",
    (
        *WHICH[:3],
        _own("attempt", "int", "Attempt that was assessed."),
        _own("status", "text", "`scored`, `no-work` or `unresolved`."),
        _own("reason_code", "text", "Why."),
        _own("reason", "text", "The same in words."),
        _own("value", "float", "Reward; null where unresolved."),
        _own("rewards", "json", "Every key of the reward file."),
        _own("flags", "texts", "Remarks such as `verifier_exit_nonzero`."),
        _own("exit_code", "int", "Exit code of the verifier."),
        _own("duration_s", "float", "Seconds that the evaluation took."),
        _own("in_force", "bool", "The execution's reward rests on it."),
        _own("created_at", "time", "When it was written."),
        Column("asked_by", "text", "Who asked for a re-assessment; null for the first verdict."),
        Column("asked_why", "text", "The reason they gave."),
    ),
)

CALLS = Table(
    "calls",
    "Recorded model requests of the attempt that ended, with exact tokens. The tree is folded from them.",
    (
        *WHICH[:3],
        _own("attempt", "int", "Attempt that recorded it."),
        _own("number", "int", "0, 1, … in order of arrival."),
        _own("parent_number", "int", "Call whose ids this one extends."),
        _own("prefix_tokens", "int", "Leading ids of that call's input + output that the input begins with."),
        Column("new_input_ids", "int32s", "Input ids after those; null: the record cannot be read."),
        Column("output_ids", "int32s", "Ids that the policy sampled."),
        Column("output_logprobs", "float32s", "Their log-probabilities as the engine reported them."),
        _own("versions", "spans", "[weight version, start, end) over the output ids."),
        _own("input_tokens", "int", "Length of the whole input."),
        _own("output_tokens", "int", "Length of the output."),
        _own("state", "text", "`complete`, `truncated`, `failed` or `quarantined`."),
        _own("role", "text", "Class of the call."),
        _own("dialect", "text", "Wire format of the request."),
        _own("conversation", "text", "Conversation it belongs to."),
        _own("branch_reason", "text", "Why it does not simply go on."),
        _own("false_fork", "bool", "It left recorded tokens that it should have extended."),
        _own("departure", "json", "Where a false fork left them: the kept call, position, ids and texts."),
        _own("malformed", "bool", "Its tool call could not be parsed."),
        _own("finish_reason", "text", "As the engine said."),
        _own("sampling", "json", "Sampling parameters."),
        _own("messages", "json", "Messages that the call adds."),
        _own("reply", "json", "Parsed reply."),
        _own("model_asked", "text", "Model name in the request."),
        _own("cell", "int", "Cell whose engine served it."),
        _own("cached_tokens", "int", "Input tokens that the engine had cached."),
        _own("error", "text", "What went wrong; the reason of a quarantine."),
        _own("started_at", "time", "When the request arrived."),
        _own("first_token_s", "float", "Seconds to the first token."),
        _own("duration_s", "float", "Seconds in all."),
        _own("held_s", "float", "Seconds held for scheduling."),
    ),
)

DRAWS = Table(
    "draws",
    "What selection drew, with enough to draw it again.",
    (
        *WHICH[:3],
        _own("attempt", "int", "Attempt that was selected from."),
        _own("number", "int", "0, 1, …"),
        _own("role", "text", "Class that was drawn from."),
        _own("candidates", "candidates", "Its leaves in order of call number: call, trainable tokens, probability."),
        _own("random", "float", "Random number in [0, 1)."),
        _own("chosen_call", "int", "The leaf."),
    ),
)

TRAJECTORIES = Table(
    "trajectories",
    "What is trained: whole paths with their targets, ready for a trainer. A dummy of no-work has no tokens.",
    (
        *WHICH[:3],
        _own("attempt", "int", "Attempt that was selected from."),
        _own("number", "int", "Draw that made it; 0 also for a dummy."),
        Column("task", "text", "Name of its task."),
        _own("leaf_call", "int", "Call at whose end the path ends; null for a dummy."),
        _own("role", "text", "Class of that call."),
        _own("batch", "int", "Batch that trains it; null: older than the staleness bound, not trained."),
        Column("reward", "float", "Evaluator's reward of the execution."),
        Column("advantage", "float", "Advantage of the execution."),
        Column("weight", "float", "1 / targets of the execution; null where nothing is trained."),
        _own("num_tokens", "int", "Length of the path."),
        _own("num_targets", "int", "Trained tokens of it."),
        _own("targets", "spans", "Trained positions as [start, end)."),
        Column("ids", "int32s", "Token ids of the path."),
        Column("target_mask", "bools", "Which of them are trained."),
        Column("logprobs", "float32s", "Behaviour log-probabilities; 0 where the policy did not sample."),
        Column("versions", "int32s", "Weight version that sampled each token; -1 where none did."),
        Column("samplers", "int32s", "Call that sampled each token; -1 where none did."),
    ),
)

TABLES = {table.name: table for table in (TASKS, GROUPS, EXECUTIONS, ASSESSMENTS, CALLS, DRAWS, TRAJECTORIES)}
FORMATS = ("parquet", "jsonl", "csv")
#: Tables whose rows make sense as lines of a spreadsheet.
CSV_TABLES = frozenset({"tasks", "groups", "executions", "assessments", "draws"})
