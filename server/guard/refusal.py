"""Refuses what must not reach the application, in the one error format."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from inferencegym.errors import InferenceGymError
from server.api.errors import error_response

__all__ = ["refuse"]


async def refuse(
    error: InferenceGymError,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answer a request, or the handshake of a WebSocket, with an error."""
    if scope["type"] == "websocket":
        await _refuse_socket(error_response(error, headers), scope, receive, send)
        return
    # The HTTP server drains what is left of the body, so the connection stays good for the next request.
    await error_response(error, headers)(scope, receive, send)


async def _refuse_socket(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse the handshake with the error as an HTTP response, where the server can do that."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1013})
        return
    await receive()
    await send(
        {
            "type": "websocket.http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
    )
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
