"""Bearer tokens for machines, sessions for people; scopes say what a caller may do."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from agents.actions.api_tokens import mark_used
from agents.web import access
from agents.web.access import Viewer
from agents.web.api_tokens import token_by_digest

if TYPE_CHECKING:  # DRF imports this module while it builds its views
    from rest_framework.views import APIView

PREFIX = "gyre_"


def new_secret() -> tuple[str, bytes]:
    """A fresh secret, shown once, and the digest that is stored."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, digest_of(secret)


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class ApiTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer gyre_…`. The row is found by the secret's SHA-256 and compared in constant time."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed("The Authorization header is not `Bearer <token>`.")
        digest = hashlib.sha256(words[1]).digest()
        token = token_by_digest(digest)
        if token is None or not hmac.compare_digest(bytes(token.digest), digest):
            raise AuthenticationFailed("This token is unknown, expired or revoked.")
        if access.viewer_of_token(token).user is None:
            raise AuthenticationFailed("The maker of this token is no longer a member of its project.")
        mark_used(token)
        return token.created_by, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="gyre"'


def needed_scope(view: APIView, method: str | None) -> str:
    """A view names the scope that each method needs in `scopes`; reading needs `read`."""
    return str(getattr(view, "scopes", {}).get(method, access.READ))


class HasScope(BasePermission):
    """The caller has the scope that the operation needs."""

    message = "The token or login lacks the scope that this needs."

    def has_permission(self, request: Request, view: APIView) -> bool:
        viewer = viewer_of(request)
        needed = needed_scope(view, request.method)
        if viewer.user is None or viewer.may(needed):
            return viewer.user is not None
        self.message = f"This needs the scope `{needed}`."
        return False


def viewer_of(request: Request) -> Viewer:
    """Who calls: from the token, or from the session's user."""
    found: Viewer | None = getattr(request, "_gyre_viewer", None)
    if found is None:
        found = access.viewer_of_token(request.auth) if request.auth else access.viewer_of_user(request.user)
        request._gyre_viewer = found
    return found
