"""Asks for the operator's token at every door but /health.

Programs send it as ``Authorization: Bearer``. A person at a browser types it once into a form; what the
browser then keeps is a cookie that proves it without holding it, ends by itself, and opens only what the page
needs: reading the page and its documents, and the calls that the page itself makes below /web.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

import limits
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from inferencegym.errors import InferenceGymError, UnauthorizedError
from server.guard.clients import client_of
from server.guard.refusal import refuse
from server.guard.sign_in_page import sign_in_page

__all__ = ["COOKIE", "TokenGate"]

COOKIE = "inferencegym_web"
COOKIE_S = 12 * 3600

WRONG_PER_MINUTE = 20
"""Wrong tokens of one address; a typing error is forgiven, trying out is not."""
KNOWN_MOST = 4096
"""Addresses remembered for having had the right token."""

FORM_BYTES_MOST = 4096
FORM_TYPE = b"application/x-www-form-urlencoded"

_OF_THE_PAGE = ("/web/", "/web-assets/")
_READ_WITH_IT = ("/favicon.ico", "/openapi.json")
_PAGES = ("", "/web", "/docs")


class TooManyWrongError(InferenceGymError):
    """An address that tries tokens out."""

    code = "rate_limited"
    status = 429

    def __init__(self) -> None:
        super().__init__("Too many wrong tokens from this address.", "Try again in a minute.")


class TokenGate:
    """Pure ASGI.

    Args:
        app: what is behind the gate.
        token: the operator's.
        mounts: path prefixes of the environments, "" among them.
    """

    def __init__(self, app: ASGIApp, token: str, mounts: Iterable[str]) -> None:
        self._app = app
        self._token = _digest(token)
        self._seal = hmac.new(token.encode(), b"inferencegym web cookie", hashlib.sha256).digest()
        mounts = tuple(mounts)
        self._health = frozenset(f"{mount}/health" for mount in mounts)
        self._pages = frozenset(mount + page for mount in mounts for page in _PAGES)
        self._read = frozenset(mount + path for mount in mounts for path in _READ_WITH_IT)
        self._below = tuple(mount + path for mount in mounts for path in _OF_THE_PAGE)
        self._wrong = _Wrong()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_health(scope):
            return await self._app(scope, receive, send)
        given = _header(scope, b"authorization")
        if given is not None:
            refusal = self._judge(scope, _bearer(given))
            if refusal is None:
                return await self._app(scope, receive, send)
            return await _refuse(refusal, scope, receive, send)
        if self._opened_by_cookie(scope):
            return await self._app(scope, receive, send)
        if self._is_page(scope):
            return await self._sign_in(scope, receive, send)
        return await _refuse(UnauthorizedError(), scope, receive, send)

    def _is_health(self, scope: Scope) -> bool:
        return (
            scope["type"] == "http" and scope["path"] in self._health and scope["method"] in ("GET", "HEAD")
        )

    def _judge(self, scope: Scope, given: str | None) -> InferenceGymError | None:
        """Why this token is not taken; an address that tries them out is not told whether it was right."""
        address = client_of(scope)
        if self._wrong.too_many(address):
            return TooManyWrongError()
        if given is not None and hmac.compare_digest(_digest(given), self._token):
            self._wrong.knows(address)
            return None
        self._wrong.note(address)
        return UnauthorizedError(wrong=True)

    # --- people --------------------------------------------------------------------------------------------

    def _is_page(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["path"].rstrip("/") not in self._pages:
            return False
        if scope["method"] == "POST":
            return (_header(scope, b"content-type") or b"").partition(b";")[0].strip().lower() == FORM_TYPE
        return scope["method"] == "GET" and b"text/html" in (_header(scope, b"accept") or b"")

    async def _sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = ""
        if scope["method"] == "POST":
            refusal = self._judge(scope, await _typed_token(receive))
            if refusal is None:
                await self._signed_in(scope)(scope, receive, send)
                return
            problem = refusal.message
            status = refusal.status
        else:
            status = UnauthorizedError.status
        headers = {**UnauthorizedError.headers, "cache-control": "no-store", "referrer-policy": "no-referrer"}
        await HTMLResponse(sign_in_page(problem), status, headers)(scope, receive, send)

    def _signed_in(self, scope: Scope) -> Response:
        response = RedirectResponse(scope["path"], 303, {"cache-control": "no-store"})
        response.set_cookie(
            COOKIE,
            self._sealed(int(time.time()) + COOKIE_S),
            max_age=COOKIE_S,
            httponly=True,
            samesite="strict",
            secure=scope.get("scheme") == "https",
        )
        return response

    def _sealed(self, until_s: int) -> str:
        """A cookie's value. It holds for every process with this token, and for none with another."""
        return f"{until_s}.{hmac.new(self._seal, b'%d' % until_s, hashlib.sha256).hexdigest()}"

    def _opened_by_cookie(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        path: str = scope["path"]
        reads = scope["method"] in ("GET", "HEAD")
        if not (path.startswith(self._below) or (reads and self._is_read(path))):
            return False
        value = _cookie(scope)
        until = value.partition(".")[0]
        if not (until.isascii() and until.isdigit() and len(until) < 12 and int(until) > time.time()):
            return False
        return hmac.compare_digest(value.encode(), self._sealed(int(until)).encode())

    def _is_read(self, path: str) -> bool:
        return path in self._read or path.rstrip("/") in self._pages


class _Wrong:
    """Wrong tokens by address.

    An address that has had the right one is never locked out: behind a proxy that is not trusted, or in a
    lab, others share it.
    """

    def __init__(self) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._item = limits.parse(f"{WRONG_PER_MINUTE}/minute")
        self._known: OrderedDict[str, None] = OrderedDict()

    def too_many(self, address: str) -> bool:
        return address not in self._known and not self._limiter.test(self._item, address)

    def note(self, address: str) -> None:
        self._limiter.hit(self._item, address)

    def knows(self, address: str) -> None:
        self._known[address] = None
        self._known.move_to_end(address)
        if len(self._known) > KNOWN_MOST:
            self._known.popitem(last=False)


async def _refuse(error: InferenceGymError, scope: Scope, receive: Receive, send: Send) -> None:
    headers = UnauthorizedError.headers if error.status == UnauthorizedError.status else {"retry-after": "60"}
    await refuse(error, scope, receive, send, headers)


def _digest(token: str) -> bytes:
    """Of one length, so that comparing tells nothing of the token's."""
    return hashlib.sha256(token.encode()).digest()


def _header(scope: Scope, wanted: bytes) -> bytes | None:
    return next((value for name, value in scope["headers"] if name == wanted), None)


def _bearer(value: bytes) -> str | None:
    scheme, _, token = value.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _cookie(scope: Scope) -> str:
    try:
        jar = SimpleCookie((_header(scope, b"cookie") or b"").decode("latin-1"))
    except CookieError:
        return ""
    return jar[COOKIE].value if COOKIE in jar else ""


async def _typed_token(receive: Receive) -> str | None:
    """What the form holds. A body that is no form of ours is a wrong token."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request" or len(body) > FORM_BYTES_MOST:
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    try:
        fields = parse_qs(body.decode("latin-1"), max_num_fields=4)
    except ValueError:
        return None
    return fields.get("token", [None])[0]
