"""Make, use and revoke API tokens. Only the SHA-256 of a secret ever comes here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from agents.core import plain_text
from agents.models import ApiToken, Project
from agents.web import access

#: `last_used_at` is only as fine as this, so that reading does not write each time.
USED_EVERY = timedelta(minutes=1)


def create_token(
    *,
    project: Project,
    user: AbstractBaseUser,
    name: str,
    scopes: Iterable[str],
    digest: bytes,
    prefix: str,
    expires_at: datetime | None,
) -> ApiToken:
    """Raises ValueError when a scope is unknown or none is given, for more than its maker may do, and for a name with
    control characters."""
    if why := plain_text.problem(name):
        raise ValueError(f"the token's name {why}")
    wanted = sorted(set(scopes))
    unknown = sorted(set(wanted) - set(ApiToken.Scope.values))
    if unknown or not wanted:
        raise ValueError(f"scopes {unknown or 'none'} given; allowed: {', '.join(ApiToken.Scope.values)}")
    maker = access.viewer_of_user(user)
    if not access.may_enter(user, project):
        raise ValueError(f"{user.get_username()} is not a member of project {project.slug}: add them, or name another")
    if beyond := [scope for scope in wanted if not maker.may(scope)]:
        raise ValueError(f"{user.get_username()} may not {', '.join(beyond)} themselves, and so no token of theirs can")
    return ApiToken.objects.create(
        project=project,
        created_by=user,
        name=name,
        scopes=wanted,
        digest=digest,
        prefix=prefix,
        expires_at=expires_at,
    )


def mark_used(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def revoke_tokens(ids: Iterable[int]) -> int:
    """Number of tokens that were alive before."""
    return ApiToken.objects.filter(pk__in=ids, revoked_at__isnull=True).update(revoked_at=timezone.now())
