"""Celery: wakes workers. What is to be done is rows in Postgres, so a lost message delays work and loses none."""

import os
from typing import Any

from celery import Celery
from celery.signals import worker_init

from agents.serving.descriptors import raise_limit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gyreweb.settings")

app = Celery("gyre")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_init.connect
def _open_as_many_files_as_allowed(**_: Any) -> None:
    """Each execution takes several descriptors."""
    raise_limit()
