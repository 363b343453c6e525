"""Make an API token and show its secret once."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents.actions.api_tokens import create_token
from agents.actions.launch_run import default_project
from agents.web import access
from gyreweb.api.auth import new_secret


class Command(BaseCommand):
    help = "Make an API token. Its secret is printed once and stored only as a hash."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what the token is for, e.g. ci")
        parser.add_argument("--scopes", default="read", help="comma-separated: read, launch, operate, admin")
        parser.add_argument("--days", type=int, default=90, help="days until it expires; 0: never")
        parser.add_argument("--project", default="", help="slug of its project; default: the default project")
        parser.add_argument("--user", default="", help="who answers for it; default: the first superuser")

    def handle(self, *args: Any, **options: Any) -> None:
        secret, digest = new_secret()
        days = options["days"]
        try:
            token = create_token(
                project=self._project(options["project"]),
                user=self._user(options["user"]),
                name=options["name"],
                scopes=[scope.strip() for scope in options["scopes"].split(",") if scope.strip()],
                digest=digest,
                prefix=secret[:12],
                expires_at=timezone.now() + timedelta(days=days) if days else None,
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        until = f"until {token.expires_at:%Y-%m-%d}" if token.expires_at else "without an end"
        self.stderr.write(f"Token {token.name!r} of project {token.project.slug}, {', '.join(token.scopes)}, {until}:")
        self.stdout.write(secret)

    @staticmethod
    def _project(slug: str) -> Any:
        if not slug:
            return default_project()
        everyone = access.Viewer(None, None, access.ALL_SCOPES)
        project = access.visible_projects(everyone).filter(slug=slug).first()
        if project is None:
            raise CommandError(f"project {slug!r} does not exist")
        return project

    @staticmethod
    def _user(name: str) -> Any:
        users = get_user_model().objects.order_by("pk")
        user = users.filter(username=name).first() if name else users.filter(is_superuser=True, is_active=True).first()
        if user is None:
            raise CommandError(
                f"user {name!r} does not exist" if name else "there is no superuser yet: run make up once"
            )
        return user
