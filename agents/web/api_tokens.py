"""API tokens: found by digest, and listed without it."""

from __future__ import annotations

from django.db.models import Q
from django.utils import timezone

from agents.models import ApiToken


def token_by_digest(digest: bytes) -> ApiToken | None:
    """The token, if it is neither expired nor revoked and its maker may still sign in."""
    now = timezone.now()
    alive = ApiToken.objects.filter(digest=digest, revoked_at__isnull=True, created_by__is_active=True)
    return alive.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now)).select_related("created_by").first()


def tokens_of(project_ids: frozenset[int] | None) -> list[ApiToken]:
    rows = ApiToken.objects.select_related("project", "created_by").defer("digest").order_by("-id")
    return list(rows if project_ids is None else rows.filter(project_id__in=project_ids))
