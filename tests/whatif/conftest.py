"""A demo run in mid-run, and questions about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser

from agents.models import Project, Run
from scheduler.models import WhatIf
from scheduler.simulator.actions.start_what_if import start_what_if
from scheduler.simulator.whatif.question import ask
from scheduler.simulator.whatif.reading import present
from tests.support.demo_run import Shape, demo_project, demo_run

SMALL = Shape(groups_per_batch=3, executions_per_group=3, bursts=2, cells=3, concurrency=6, steps=8)


@pytest.fixture
def project(db: None) -> Project:
    return demo_project()


@pytest.fixture
def run(project: Project) -> Run:
    return demo_run(project=project, shape=SMALL)


@pytest.fixture
def user(db: None) -> AbstractBaseUser:
    return get_user_model().objects.create_user("ada")


@pytest.fixture
def asked(run: Run, user: AbstractBaseUser) -> Callable[..., WhatIf]:
    """Starts a what-if about the run: `asked(rho_min="0.5, 1")`."""

    def make(span: str = "rest", seeds: int = 3, hours: float = 0.02, **values: Any) -> WhatIf:
        now = present(run)
        question = ask(now.values, values, settings=now.settings, span=span, hours=hours, seeds=seeds)
        return start_what_if(run, question, user=user)

    return make
