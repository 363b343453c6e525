"""Overrides are set, previewed and released with owner, reason and expiry, and stand in the event log."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from agents.actions.errors import Refused
from agents.models import Run, RunEvent
from scheduler.actions.release_override import release_override
from scheduler.actions.set_override import preview_override, set_override
from scheduler.cells import create_cells
from scheduler.models import Cell, Override
from scheduler.observe import observe
from tests.scheduler.standin import make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> AbstractBaseUser:
    return get_user_model().objects.create_user("ada")


@pytest.fixture
def run() -> Run:
    made = make_run(state=Run.State.RUNNING, cells=2, eval_every_steps=0)
    create_cells(made)
    Cell.objects.filter(run=made).update(role="rollout", weight_version=0)
    return made


def soon() -> Any:
    return timezone.now() + timedelta(minutes=5)


def test_an_override_is_seen_by_the_next_snapshot_and_told_in_the_log(run: Run, user: AbstractBaseUser) -> None:
    row = set_override(
        run, user=user, kind="pin", cell_index=1, value={"role": "rollout"}, reason="repair", expires_at=soon()
    )
    seen = observe(run.pk)
    assert seen is not None
    assert [(o.id, o.kind, o.cell_index, o.role) for o in seen.snapshot.overrides] == [(row.pk, "pin", 1, "rollout")]
    event = RunEvent.objects.get(run=run, kind="override_set")
    assert (event.payload["by"], event.payload["reason"]) == ("ada", "repair")


def test_a_released_override_is_gone_and_cannot_be_released_again(run: Run, user: AbstractBaseUser) -> None:
    row = set_override(run, user=user, kind="hold_dispatch", reason="disk is full", expires_at=soon())
    release_override(row, user=user)
    seen = observe(run.pk)
    assert seen is not None
    assert seen.snapshot.overrides == ()
    with pytest.raises(Refused, match="over already"):
        release_override(row, user=user)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "explode"}, "known kinds: pin, forbid_switch, drain, hold_dispatch, setting"),
        ({"kind": "pin", "value": {"role": "rollout"}}, "pin needs a cell_index"),
        ({"kind": "pin", "cell_index": 1, "value": {"role": "lost"}}, "pin needs value.role rollout or training"),
        ({"kind": "drain", "cell_index": 7}, "has no cell 7"),
        ({"kind": "setting", "value": {"name": "rho_min", "value": 2}}, "rho_min needs a number in"),
        ({"kind": "hold_dispatch", "reason": " "}, "an override needs a reason"),
        ({"kind": "hold_dispatch", "expires_at": timezone.now() - timedelta(seconds=1)}, "must lie in the future"),
    ],
)
def test_a_bad_override_is_refused_with_what_is_wrong(
    run: Run, user: AbstractBaseUser, changes: dict[str, Any], message: str
) -> None:
    wanted: dict[str, Any] = {"user": user, "reason": "why", "expires_at": soon(), **changes}
    with pytest.raises(Refused, match=message):
        set_override(run, **wanted)
    assert not Override.objects.exists()


def test_a_preview_says_what_would_be_decided_and_changes_nothing(run: Run) -> None:
    preview = preview_override(run, kind="hold_dispatch")
    assert [d.accepted for d in preview.without if d.kind == "dispatch_burst"] == [True]
    assert [d.reason_code for d in preview.with_it if d.kind == "dispatch_burst"] == ["override"]
    assert not Override.objects.exists()
    assert not RunEvent.objects.filter(run=run).exists()
