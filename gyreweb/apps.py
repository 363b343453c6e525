"""Makes Gyre's Celery app the current one in every process that loads Django, so that any of them can send a wake."""

from django.apps import AppConfig


class GyrewebConfig(AppConfig):
    name = "gyreweb"

    def ready(self) -> None:
        from gyreweb import celery  # noqa: F401
