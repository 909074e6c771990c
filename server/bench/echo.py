"""The yardstick of the benchmark: FastAPI echoing JSON, served exactly as the real server is."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

__all__ = ["app"]

app = FastAPI(openapi_url=None)


@app.get("/health")
async def health() -> dict[str, str]:
    """Tell the benchmark that the server is up."""
    return {"status": "healthy"}


@app.post("/step")
async def step(body: dict[str, Any]) -> dict[str, Any]:
    """Answer what was sent."""
    return body


@app.websocket("/ws")
async def ws(socket: WebSocket) -> None:
    """Answer every message with itself."""
    await socket.accept()
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            await socket.send_json(await socket.receive_json())


if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(os.environ["PORT"]),
        http="httptools",
        ws_per_message_deflate=False,
        timeout_keep_alive=75,
        access_log=False,
        log_level="warning",
    )
