"""Projects isolate runs; task sets hold tasks in the Harbor format; API tokens are hashed and scoped."""

from django.conf import settings
from django.db import models


class Project(models.Model):
    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=120)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="projects")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.slug


class ApiToken(models.Model):
    """A machine's credential. Only the SHA-256 of the secret is stored."""

    class Scope(models.TextChoices):
        READ = "read"
        LAUNCH = "launch"
        OPERATE = "operate"
        ADMIN = "admin"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=120)
    digest = models.BinaryField(max_length=32, unique=True)
    prefix = models.CharField(max_length=12, help_text="First characters of the secret, to recognise it.")
    scopes = models.JSONField(default=list, help_text="Subset of read, launch, operate, admin.")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class TaskSet(models.Model):
    """A directory of tasks on this machine, imported once per content digest."""

    name = models.SlugField(max_length=64)
    path = models.TextField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "digest"], name="task_set_once_per_content")]

    def __str__(self) -> str:
        return self.name


class Task(models.Model):
    class Split(models.TextChoices):
        TRAIN = "train"
        HELDOUT = "heldout"

    task_set = models.ForeignKey(TaskSet, on_delete=models.CASCADE, related_name="tasks")
    name = models.CharField(max_length=120)
    split = models.CharField(max_length=8, choices=Split, default=Split.TRAIN)
    kind = models.CharField(max_length=40, blank=True)
    path = models.TextField(help_text="Directory of the task, absolute.")
    digest = models.CharField(max_length=64)
    config = models.JSONField(help_text="Parsed task.toml with defaults applied.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task_set", "name"], name="task_name_once_per_set")]

    def __str__(self) -> str:
        return self.name
