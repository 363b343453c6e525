from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "gyreweb.webhooks"
    label = "webhooks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """The scheduler's leader wakes the worker that sends."""
        from gyreweb.webhooks import tasks  # noqa: F401
