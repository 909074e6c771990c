"""The REST endpoints of one environment: the eight of its contract, and by-ways to tasks and grades."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Annotated, Any

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import FastAPI, Path, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from inferencegym import __version__
from inferencegym.errors import InvalidValueError, UnknownNameError
from server.api.errors import RejectedError
from server.api.raw import Handler, RawRoute, documented, json_body, json_response
from server.api.schemas import (
    BaselineReply,
    DeletedReply,
    ErrorReply,
    GradeByReplay,
    GradeReply,
    GradeRequest,
    HealthReply,
    InfoReply,
    TaskDetailReply,
    TasksMetaReply,
    TasksReply,
)
from server.bound import BoundEnv, reply_parts
from server.guard.clients import client_of
from server.guard.costs import RESET_STEPS
from server.services import Services
from server.sessions.episodes import Session
from server.sessions.grading import Baseline, GradingDesk

__all__ = ["RestEndpoints", "add_rest_routes"]

THREADS = 2
"""Threads of an environment for what must not wait behind gradings: /info, /baseline, cold sessions."""

_REPORTED_PACKAGES = ("fastapi", "numpy", "openenv", "pydantic", "scipy")


class RestEndpoints:
    """Handlers; their docstrings are the API's documentation."""

    def __init__(self, bound: BoundEnv, services: Services) -> None:
        self._bound = bound
        self._services = services
        self._env_id = bound.spec.id
        self._baseline = Baseline(bound)
        self._desk: GradingDesk = services.desk
        self._documents = CapacityLimiter(THREADS)
        self._resetting = _UnderWay()

    async def reset(self, request: Request) -> Response:
        """Start an episode. No body, or `{}`, starts the first task with seed 42.

        The reply's `session_id` is needed by all further calls. A malformed body starts nothing.
        """
        body = await json_body(request)
        client = client_of(request.scope)
        self._services.costs.charge(client, RESET_STEPS)
        start = self._bound.parse_reset(body)
        async with self._resetting.of(client) as others:
            episode, observation = await self._bound.begin_beside(start, always=others)
            # A new session may have to cool an older one, which takes as long as the reset.
            create = partial(self._services.sessions.create, start, episode, self._bound, client)
            session = await anyio.to_thread.run_sync(create) if others else create()
        return json_response(
            {
                "session_id": session.id,
                "observation": observation,
                "reward": None,
                "done": False,
                "episode_length": episode.task.episode_length,
                "task_id": start.task_id,
                "seed": start.seed,
                "episode_id": start.episode_id,
            }
        )

    async def step(self, request: Request) -> Response:
        """Take one step. Action fields left out take their defaults; a step after the end is a 409.

        The call always names its session: a server that guessed it would mix up two clients' episodes.
        """
        session_id, action = self._bound.parse_step(await json_body(request))
        session = await self._session(session_id)
        return json_response(reply_parts(session.step(action)))

    async def state(self, request: Request) -> Response:
        """Metadata of an episode: task, seed, steps taken, reward so far."""
        session_id = request.query_params.get("session_id")
        if not session_id:
            raise RejectedError(
                "session_id: missing; expected text.", "Call /state?session_id=… with the id of POST /reset."
            )
        return json_response((await self._session(session_id)).state())

    async def delete(self, request: Request) -> Response:
        """End an episode and free its place at once."""
        session_id = request.path_params["session_id"]
        self._services.sessions.delete(session_id, self._env_id)
        return json_response({"session_id": session_id, "deleted": True})

    async def grader(self, request: Request) -> Response:
        """Grade an episode, in exactly one of three ways.

        - `{task_id, episode_log}` grades a log that you kept: the /step replies in order, or of each
          `{action, reward, metrics}`. Not verified.
        - `{session_id}` grades the server's own record, finished or not. Verified.
        - `{task_id, seed, actions}` (and `config`, if the episode had one) plays the episode again.
          Verified.
        """
        return await self._graded(self._desk.grade, request)

    async def grade(self, request: Request) -> Response:
        """As POST /grader; a task that does not exist is a 404 with near matches."""
        return await _or_not_found(self.grader(request))

    async def replay(self, request: Request) -> Response:
        """Grade by replay alone: `{task_id, seed, actions}`, and `config` if the episode had one.

        What a client says about its rewards is no part of the request. The grade is verified. A task that
        does not exist is a 404.
        """
        return await _or_not_found(self._graded(self._desk.replay, request))

    async def tasks_meta(self, _request: Request) -> Response:
        """What the tasks have in common, and the ids and aliases that every door takes."""
        return json_response(self._bound.task_meta())

    async def task(self, request: Request) -> Response:
        """One task by id or alias, with further facts; a 404 with near matches when there is none."""

        async def detail() -> Response:
            return json_response(self._bound.task_detail(request.path_params["task_id"]))

        return await _or_not_found(detail())

    async def baseline(self, _request: Request) -> Response:
        """The baseline agent's score on every task: seed 0, computed once, the same every time."""
        return json_response(await anyio.to_thread.run_sync(self._baseline.reply, limiter=self._documents))

    async def tasks(self, request: Request) -> Response:
        """The tasks, in order of difficulty; with `all=true` those beyond the usual ones too."""
        flag = request.query_params.get("all", "false")
        if flag not in ("true", "false"):
            raise InvalidValueError("all", flag, "true or false")
        return json_response({"tasks": self._bound.task_list(everything=flag == "true")})

    async def info(self, _request: Request) -> Response:
        """JSON schemas of action, observation, state and config, versions, and what drives the episodes."""
        return json_response(await anyio.to_thread.run_sync(self._describe, limiter=self._documents))

    async def health(self, _request: Request) -> Response:
        """Whether the server is up."""
        services = self._services
        return json_response(
            {
                "status": "healthy",
                "active_sessions": services.active_sessions(),
                "uptime_s": round(time.monotonic() - services.started_s, 3),
                "version": self._bound.spec.version,
            }
        )

    async def _session(self, session_id: str) -> Session:
        """The session, warm: what has to be brought back first is brought back beside the event loop."""
        session = self._services.sessions.get(session_id, self._env_id)
        if session.is_cold:
            await anyio.to_thread.run_sync(session.warm, limiter=self._documents)
        return session

    async def _graded(
        self, grade: Callable[[BoundEnv, str, bytes], dict[str, Any]], request: Request
    ) -> Response:
        body = await json_body(request)
        return json_response(
            await self._desk.run(request, grade, self._bound, client_of(request.scope), body)
        )

    def _describe(self) -> dict[str, Any]:
        bound = self._bound
        own: dict[str, Any] = dict(bound.spec.part("info")())
        versions = {name: version(name) for name in _REPORTED_PACKAGES}
        versions |= {"inferencegym": __version__, "python": platform.python_version()}
        return {
            "id": bound.spec.id,
            "title": bound.spec.title,
            "description": bound.spec.description,
            "version": bound.spec.version,
            "action_schema": bound.action_model.model_json_schema(),
            "observation_schema": bound.observation_model.model_json_schema(),
            "state_schema": bound.state_model.model_json_schema(),
            "config_schema": bound.config_model.model_json_schema(),
            **own,
            "versions": versions | own.get("versions", {}),
        }


class _UnderWay:
    """Whose requests are under way: a client that resets many episodes at once gets one after the other."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, client: str) -> AsyncGenerator[bool]:
        """Whether the client has another one under way already."""
        self._counts[client] += 1
        try:
            yield self._counts[client] > 1
        finally:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]


async def _or_not_found(reply: Awaitable[Response]) -> Response:
    """The reply; a name that does not exist becomes a 404."""
    try:
        return await reply
    except UnknownNameError as error:
        error.status = HTTPStatus.NOT_FOUND
        raise


def add_rest_routes(app: FastAPI, bound: BoundEnv, services: Services) -> None:
    """Put the endpoints on ``app``, each documented by its models, and on the fast lane."""
    rest = RestEndpoints(bound, services)
    routes: list[BaseRoute] = []

    def add(
        method: str,
        handler: Handler,
        model: Any,
        errors: tuple[int, ...] = (),
        path: str = "",
        **parameters: Any,
    ) -> None:
        endpoint = documented(handler, **parameters)
        path = path or f"/{endpoint.__name__}"
        if "{" not in path:
            services.fast_lane[method, f"{bound.spec.mount}{path}"] = handler
        routes.append(
            RawRoute(
                path,
                endpoint,
                methods=[method],
                response_model=model,
                responses={status: {"model": ErrorReply} for status in (*errors, 429)},
            )
        )

    body_errors = (413, 415, 422)
    session_id = Annotated[str, Query(description="As POST /reset gave it.")]
    # In order of use and before FastAPI's own: the router tries its routes one after the other.
    add("POST", rest.step, bound.step_reply, (404, 409, *body_errors), body=bound.step_request)
    add("POST", rest.reset, bound.reset_reply, (*body_errors, 503), optional_body=(bound.reset_request, None))
    add("GET", rest.state, bound.state_model, (404, 409, 422), session_id=session_id)
    add("POST", rest.grader, GradeReply, (404, 409, *body_errors, 503), body=GradeRequest)
    add("GET", rest.health, HealthReply)
    everything = Annotated[bool, Query(description="List the tasks beyond the usual ones too.")]
    add("GET", rest.tasks, TasksReply, (422,), all=(everything, False))
    add("GET", rest.info, InfoReply)
    add("GET", rest.baseline, BaselineReply)
    add("POST", rest.grade, GradeReply, (404, 409, *body_errors, 503), body=GradeRequest)
    add("POST", rest.replay, GradeReply, (404, *body_errors, 503), "/grader/replay", body=GradeByReplay)
    named = Annotated[str, Path(description="As POST /reset gave it.")]
    add("DELETE", rest.delete, DeletedReply, (404,), "/sessions/{session_id}", session_id=named)
    # Before the path with a parameter, which would match it.
    add("GET", rest.tasks_meta, TasksMetaReply, path="/tasks/meta")
    task_id = Annotated[str, Path(description="Id or alias of a task.")]
    add("GET", rest.task, TaskDetailReply, (404,), "/tasks/{task_id}", task_id=task_id)
    app.router.routes[:0] = routes
