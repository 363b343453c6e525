from django.apps import AppConfig


class TrainersConfig(AppConfig):
    name = "trainers"
    default_auto_field = "django.db.models.BigAutoField"
