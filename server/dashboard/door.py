"""What of the page's framework a visitor reaches: an allow-list of paths, and no payload that names a file.

Gradio's components take files: a payload that carries ``{"path": …, "meta": {"_type": "gradio.FileData"}}``
is copied to a cache that the framework serves, whatever the component is. Nothing on this page takes, makes
or shows a file, so three places close it, each by itself enough:

- at the root, :func:`seal` makes no component of the page able to take a path or an address;
- at the door, :class:`PageDoor` refuses such payloads before the framework reads them;
- at the exit, the path that serves files is none of those that are open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import parse_qsl, urlencode

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from inferencegym.errors import InferenceGymError, InvalidValueError
from server.api.errors import InvalidJsonError, RejectedError, error_response
from server.api.raw import dumped, replayed
from server.guard.clients import client_of
from server.guard.costs import Costs

__all__ = ["PageDoor", "check_open", "costs_steps", "prices", "seal"]

_OPEN_TO_GET = frozenset(
    {
        "/web/",
        "/web/config",
        "/web/favicon.ico",
        "/web/manifest.json",
        "/web/theme.css",
        "/web/gradio_api/app_id",
        "/web/gradio_api/info",
        "/web/gradio_api/queue/data",
        "/web/gradio_api/startup-events",
    }
)
_OPEN_FOLDERS = ("/web/assets/", "/web/static/", "/web/gradio_api/heartbeat/")
"""The framework's own scripts and styles, and the stream by which it sees that a visitor has left."""
_OPEN_TO_POST = frozenset({"/web/gradio_api/queue/join", "/web/gradio_api/cancel", "/web/gradio_api/reset"})
"""How the page calls its functions and cancels a call (a cancel says reset, too, which does nothing). Other
ways to call them pass the queue by."""

_CALL = "/queue/join"

CALL_STEPS = 10
"""What calling a function of the page costs a visitor, in steps, unless it says otherwise."""

_QUERIES_CLOSED = frozenset({"deep_link"})
"""Names a state that the framework stored in a file; the page stores none."""


F = TypeVar("F", bound=Callable[..., Any])


def costs_steps(steps: int) -> Callable[[F], F]:
    """Marks a function of the page that computes whole episodes with a call's cost, in steps."""

    def mark(function: F) -> F:
        vars(function)["costs_steps"] = steps
        return function

    return mark


def prices(page: Any) -> dict[int, int]:
    """What the functions of a built page (``gradio.Blocks``) cost, by their numbers."""
    return {number: getattr(block.fn, "costs_steps", CALL_STEPS) for number, block in page.fns.items()}


class PageDoor:
    """Pure ASGI in front of the page's application, for paths that :func:`check_open` has let through.

    Args:
        app: the page's application.
        costs: charges visitors for what they have computed.
        prices: of the page's functions by number, in steps; see :func:`prices`. There are no others.
    """

    def __init__(self, app: ASGIApp, costs: Costs, prices: Mapping[int, int]) -> None:
        self._app, self._costs, self._prices = app, costs, prices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(_without_closed_queries(scope), receive, send)
            return
        try:
            document = screened(await Request(scope, receive).body())
            if scope["path"].endswith(_CALL):
                self._costs.charge(client_of(scope), self._price(document.get("fn_index")))
            # Written anew, so that the framework reads the very document that was screened.
            body = dumped(document)
        except InferenceGymError as error:
            await error_response(error)(scope, receive, send)
            return
        await self._app(_with_length(scope, len(body)), replayed(body, receive), send)

    def _price(self, function: Any) -> int:
        if isinstance(function, bool) or not isinstance(function, int) or function not in self._prices:
            raise InvalidValueError("fn_index", function, "the id of a function in GET /web/config")
        return self._prices[function]


def check_open(scope: Scope) -> None:
    """Raises HTTPException 404: nothing that the page needs is served at this path."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if scope["type"] == "http" and ".." not in path:
        if scope["method"] in ("GET", "HEAD") and (path in _OPEN_TO_GET or path.startswith(_OPEN_FOLDERS)):
            return
        if scope["method"] == "POST" and path in _OPEN_TO_POST:
            return
    raise HTTPException(HTTPStatus.NOT_FOUND)


def screened(body: bytes) -> dict[str, Any]:
    """The body as the framework may get it.

    Raises:
        InvalidJsonError: no JSON object.
        RejectedError: it names a file.
    """
    try:
        document = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidJsonError(str(error)) from None
    if not isinstance(document, dict):
        raise InvalidJsonError("it is no object")
    for value in _mappings(document):
        meta = value.get("meta")
        if isinstance(meta, dict) and "_type" in meta:
            raise RejectedError(
                "data: a value with meta._type names a file, which no function of this page takes.",
                "Send plain values; GET /web/config lists what each function takes.",
            )
    return cast("dict[str, Any]", document)


def _mappings(document: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a JSON document, at any depth."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found = cast("dict[str, Any]", value)
            yield found
            waiting.extend(found.values())
        elif isinstance(value, list):
            waiting.extend(cast("list[Any]", value))


def _without_closed_queries(scope: Scope) -> Scope:
    query = scope.get("query_string", b"").decode("latin-1")
    kept = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _QUERIES_CLOSED]
    return {**scope, "query_string": urlencode(kept).encode("latin-1")}


def _with_length(scope: Scope, length: int) -> Scope:
    others = [pair for pair in scope["headers"] if pair[0] not in (b"content-length", b"transfer-encoding")]
    return {**scope, "headers": [*others, (b"content-length", b"%d" % length)]}


def _refuse_resource(_path_or_url: object) -> NoReturn:
    raise RejectedError("data: no function of this page takes a file or an address.", "Send plain values.")


async def _refuse_resource_async(path_or_url: object) -> NoReturn:
    _refuse_resource(path_or_url)


def seal(page: Any) -> None:
    """Make no component of a built page able to read a file or fetch an address.

    Args:
        page: the ``gradio.Blocks``. Its own check of paths is off as long as it believes that it was not
            launched, which a page inside another application never is.
    """
    page.has_launched = True
    page.show_error = False  # what nobody foresaw is for the log
    page.allowed_paths = []
    page.blocked_paths = ["/"]
    for block in page.blocks.values():
        vars(block)["async_move_resource_to_block_cache"] = _refuse_resource_async
        vars(block)["move_resource_to_block_cache"] = _refuse_resource
