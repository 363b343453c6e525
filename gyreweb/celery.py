"""Celery: wakes workers. The truth of what is to be done stands in Postgres, so no message is ever needed."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gyreweb.settings")

app = Celery("gyre")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
