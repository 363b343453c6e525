"""Test support: a run with everything that the processor makes of recorded calls, through the real actions."""

from __future__ import annotations

from django.contrib.auth import get_user_model

from agents.actions.finish_execution import finish_execution, harness_end, judged, write_assessment
from agents.core.outcome import HarnessEnd, Reason, Status, Verdict
from agents.core.roles import Role
from agents.models import Call, Execution, Group, Reassessment
from tests.processor.records import DONE, Made, make_run, record, record_conversation, scored
from trainers.actions.admit_group import admit_group


def processed_run() -> Made:
    """An admitted group of four with every voting outcome and one unresolved, a ready group, an evaluation, and one
    execution that still runs."""
    made = make_run(j_max=2, malformed_penalty=0.5)
    group = made.group(4)
    verdicts = [
        scored(1.0),
        scored(0.25),
        Verdict(Status.NO_WORK),
        Verdict(Status.UNRESOLVED, reason_code=Reason.EVALUATION_TIMEOUT, reason="20 s over", log="x"),
    ]
    for execution, verdict in zip(group.executions.order_by("index"), verdicts, strict=True):
        record_conversation(execution, version=2)
        record(execution, 3, [50 + execution.index, 51], [9, 9], role=Role.SUB_AGENT, version=3)
        record(execution, 4, [60], [8], role=Role.SUB_AGENT, logprobs=[float("nan")])
        record(execution, 5, [70], [7], role=Role.SUB_AGENT, state=Call.State.QUARANTINED)
        broken = record(execution, 6, [1], [2])
        Call.objects.filter(pk=broken.pk).update(tokens=b"\x01torn")
        Call.objects.filter(execution=execution, number=5).update(
            error='=HYPERLINK("http://example.org")', false_fork=True,
            departure={
                "call": 4, "position": 0, "recorded_ids": [60, 8], "recorded_text": "", "given_ids": [70],
                "given_text": "",
            },
            messages=[{"role": "user", "content": "hé\n✓"}],
        )  # fmt: skip
        finish_execution(execution.pk, 1, verdict, HarnessEnd(execution.index, num_malformed_calls=execution.index))
    admit_group(made.batch(version=3).pk, group.pk)
    first = Execution.objects.get(group=group, index=0)
    user = get_user_model().objects.create_user("ann")
    verdict = write_assessment(first, scored(0.5), judged(first, scored(0.5)), in_force=False)
    Reassessment.objects.create(
        execution=first, attempt=1, owner=user, reason="what if", state="done", assessment=verdict
    )
    assert harness_end(first).exit_code == 0
    for kind, number in ((Group.Kind.TRAINING, 2), (Group.Kind.EVALUATION, 1)):
        other = made.group(number, kind=kind)
        for execution in other.executions.order_by("index"):
            record_conversation(execution, num_calls=2)
            finish_execution(execution.pk, 1, scored(execution.index / 2), DONE)
    made.group(1)
    return made
