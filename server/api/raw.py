"""Routes that are documented like any FastAPI route but read and write raw JSON.

FastAPI's own body handling parses, validates and serialises in several passes; on POST /step that costs
more than the step. Here the request model validates the body's bytes directly, and the reply is
serialised once. The models still appear in the OpenAPI document.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import MediaTypeError

__all__ = [
    "Handler",
    "JsonOnly",
    "RawRoute",
    "documented",
    "dumped",
    "json_body",
    "json_response",
    "replayed",
]

Handler = Callable[[Request], Awaitable[Response]]

JSON_TYPE = b"application/json"
CURL_DEFAULT_TYPE = "application/x-www-form-urlencoded"
"""What `curl -d` declares by itself; such a body still has to be JSON."""


class RawRoute(APIRoute):
    """Calls the handler behind a :func:`documented` endpoint with the bare request."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        # In place of FastAPI's own, which prepares for dependencies that no handler here has.
        self.app = _asgi(vars(endpoint)["handler"])


def _asgi(handler: Handler) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


def documented(handler: Handler, **parameters: Any) -> Callable[..., Any]:
    """An endpoint whose signature describes ``handler`` in the OpenAPI document.

    Args:
        handler: takes the request and returns the response; its docstring is the description.
        parameters: annotations that FastAPI understands, by name: ``body=Model`` for the JSON body,
            ``session_id=Annotated[str, Query()]`` for a query parameter; a pair of annotation and default
            for one that may be left out, as ``optional_body=(Model, None)``.
    """

    async def endpoint(**_parameters: Any) -> Response:
        raise NotImplementedError("the route calls the handler, never this")

    given: dict[str, tuple[Any, Any]] = {
        name: value if isinstance(value, tuple) else (value, inspect.Parameter.empty)
        for name, value in parameters.items()
    }
    endpoint.__name__ = getattr(handler, "__name__", "endpoint")
    endpoint.__doc__ = inspect.getdoc(handler)
    vars(endpoint)["handler"] = handler
    vars(endpoint)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=default,
            )
            for name, (annotation, default) in given.items()
        ]
    )
    return endpoint


async def json_body(request: Request) -> bytes:
    """The body of a request that is not declared as something else than JSON.

    A missing content type is fine, and so is the one that ``curl -d`` adds.

    Raises:
        MediaTypeError: the body is declared as text, XML, a file upload and so on.
    """
    message = await request.receive()
    # One chunk is the rule; anything else goes the general way.
    whole = message["type"] == "http.request" and not message.get("more_body", False)
    body: bytes = message.get("body", b"") if whole else await _joined(message, request.receive)
    declared = next((value for name, value in request.scope["headers"] if name == b"content-type"), JSON_TYPE)
    if declared == JSON_TYPE or not body:
        return body
    _check_type(declared)
    return body


def _check_type(declared: bytes) -> None:
    content_type = declared.decode("latin-1")
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in ("application/json", CURL_DEFAULT_TYPE, "") and not kind.endswith("+json"):
        raise MediaTypeError(content_type)


class JsonOnly:
    """Lets an endpoint whose body FastAPI reads take the content types that :func:`json_body` takes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        for name, value in scope["headers"]:
            if name == b"content-type":
                _check_type(value)
        await self._app({**scope, "headers": [*others, (b"content-type", JSON_TYPE)]}, receive, send)


async def _joined(message: Message, receive: Receive) -> bytes:
    chunks: list[bytes] = []
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)
        message = await receive()
    raise ClientDisconnect


def dumped(document: Any) -> bytes:
    """A JSON document as bytes; whole numbers may have any size, as in what the standard library reads."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document).encode()


def replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives ``body`` first."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return first.pop() if first else await receive()

    return given


class JsonResponse(Response):
    """A 200 response with a body that is JSON already. Sets what Starlette's would work out."""

    def __init__(self, body: bytes) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON_TYPE)]


def json_response(content: Any) -> Response:
    """A 200 response; pydantic models and named tuples inside ``content`` are written field by
    field."""
    return JsonResponse(orjson.dumps(content, default=_fields_of))


def _fields_of(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.__dict__
    fields = getattr(value, "_asdict", None)
    if fields is not None:  # a named tuple, inside a dataclass say
        return fields()
    raise TypeError(f"{type(value).__name__} is not JSON")
