"""API tokens: found by digest, marked when used, made by an operator. The secret itself is never stored."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q
from django.utils import timezone

from agents.models import ApiToken, Project

#: `last_used_at` is only as fine as this, so that reading does not write each time.
USED_EVERY = timedelta(minutes=1)


def token_by_digest(digest: bytes) -> ApiToken | None:
    """The token, if it is neither expired nor revoked and its maker may still sign in."""
    now = timezone.now()
    alive = ApiToken.objects.filter(digest=digest, revoked_at__isnull=True, created_by__is_active=True)
    return alive.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now)).select_related("created_by").first()


def mark_used(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def create_token(
    *, project: Project, user: AbstractBaseUser, name: str, scopes: list[str], digest: bytes, prefix: str,
    expires_at: datetime | None,
) -> ApiToken:  # fmt: skip
    """Raises ValueError for an unknown scope."""
    unknown = sorted(set(scopes) - set(ApiToken.Scope.values))
    if unknown or not scopes:
        raise ValueError(f"scopes {unknown or scopes} are not among {', '.join(ApiToken.Scope.values)}")
    return ApiToken.objects.create(
        project=project, created_by=user, name=name, scopes=sorted(set(scopes)), digest=digest, prefix=prefix,
        expires_at=expires_at,
    )  # fmt: skip


def tokens_of(project_ids: frozenset[int] | None) -> list[ApiToken]:
    rows = ApiToken.objects.select_related("project", "created_by").defer("digest").order_by("-id")
    return list(rows if project_ids is None else rows.filter(project_id__in=project_ids))
