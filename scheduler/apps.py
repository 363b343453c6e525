from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Join what the live scheduler does not know: the simulator registers its task and its chore."""
        from scheduler.simulator import tasks  # noqa: F401
