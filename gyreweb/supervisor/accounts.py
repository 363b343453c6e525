"""The first login. The password is shown once; only its hash is kept."""

import secrets

from django.contrib.auth import get_user_model

ADMIN = "admin"


def login_hint() -> str:
    """How to log in where accounts exist already."""
    administrator = get_user_model().objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    name = administrator.get_username() if administrator else ADMIN
    command = "changepassword" if administrator else "createsuperuser --username"
    return f"Login: {name} (forgotten? .venv/bin/python manage.py {command} {name})"


def create_first_admin() -> str | None:
    """Make the user `admin` when no account exists yet; returns its password, or None when there is an account."""
    users = get_user_model().objects
    if users.exists():
        return None
    password = secrets.token_urlsafe(12)
    users.create_superuser(username=ADMIN, password=password)
    return password
