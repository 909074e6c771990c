"""POST /grader and GET /baseline: gradings and replays, run beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import anyio.to_thread
from anyio import CapacityLimiter
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from env.protocols import Agent, GradeResult, listed_tasks
from inferencegym.errors import EpisodeNotStartedError, InvalidValueError
from server.api.errors import ClientShareError, InvalidJsonError, RejectedError, ServerFullError
from server.api.explain import explain, shown
from server.api.schemas import GradeByLog, GradeByReplay, GradeBySession, GradeRequest
from server.bound import BoundEnv
from server.guard.clients import client_of, is_limited
from server.guard.costs import Costs
from server.operations.settings import Settings
from server.sessions.episodes import Session
from server.sessions.manager import SessionManager
from server.sessions.played import NOT_STANDARD, played_by_log, played_of

__all__ = ["BASELINE_AGENT", "BASELINE_SEED", "Baseline", "GradingDesk"]

BASELINE_AGENT = "baseline"
BASELINE_SEED = 0

QUEUE_RETRY_S = 1
"""Retry-After of a full queue: a grading takes some hundredths of a second."""

T = TypeVar("T")
Shape = TypeVar("Shape", bound=BaseModel)

# Which of the three shapes a request is: the field that only this shape has.
_SHAPES: dict[str, type[GradeRequest]] = {
    "episode_log": GradeByLog,
    "session_id": GradeBySession,
    "actions": GradeByReplay,
}
_SHAPES_HINT = (
    "Send {task_id, episode_log}, or {session_id}, or {task_id, seed, actions} with config if the episode "
    "had one."
)


class GradingDesk:
    """Runs gradings in a few threads, so that long ones neither block nor starve the steps.

    A bounded number waits, of one client a share of it; who has left is not waited for.
    """

    def __init__(self, sessions: SessionManager, costs: Costs, settings: Settings) -> None:
        self._sessions = sessions
        self._costs = costs
        self._limiter = CapacityLimiter(settings.grader_threads)
        self._places = settings.grader_queue
        self._share = settings.share_of(settings.grader_queue)
        self._limit_loopback = settings.limit_loopback
        self._waiting: Counter[str] = Counter()

    async def run(self, request: Request, work: Callable[..., T], *arguments: Any) -> T:
        """``work(*arguments)`` in a thread, for the client of ``request``.

        Raises:
            ClientShareError, ServerFullError: too many run or wait; nothing was done.
            ClientDisconnect: the client left before its turn.
        """
        client = client_of(request.scope)
        self._check_room(client)
        self._waiting[client] += 1
        turn = _Turn(work, lambda: self._leave(client))
        watch = asyncio.create_task(turn.end_with(request))
        try:
            return await anyio.to_thread.run_sync(turn.take, *arguments, limiter=self._limiter)
        finally:
            watch.cancel()
            turn.leave()

    def _check_room(self, client: str) -> None:
        if is_limited(client, self._limit_loopback) and self._waiting[client] >= self._share:
            raise ClientShareError(self._share, QUEUE_RETRY_S, "gradings under way")
        if self._waiting.total() >= self._places:
            raise ServerFullError(self._places, QUEUE_RETRY_S, "gradings under way")

    def _leave(self, client: str) -> None:
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]

    def grade(self, bound: BoundEnv, client: str, body: bytes) -> dict[str, Any]:
        """The reply to a body of POST /grader.

        Raises:
            RejectedError: none or several of the three shapes.
            InvalidValueError: a field that its shape or the grader refuses.
            SessionNotFoundError: the session is unknown or evicted.
        """
        request = _parse(body)
        if isinstance(request, GradeByLog):
            self._costs.charge(client, len(request.episode_log))
            return self._grade_log(bound, request)
        if isinstance(request, GradeBySession):
            session = self._sessions.get(request.session_id, bound.spec.id)
            self._costs.charge(client, session.steps)
            return self._grade_session(bound, session)
        self._costs.charge(client, len(request.actions))
        return self._grade_replay(bound, request)

    def replay(self, bound: BoundEnv, client: str, body: bytes) -> dict[str, Any]:
        """The reply to a body of POST /grader/replay. Raises as :meth:`grade`."""
        request = _validated(_document(body), GradeByReplay)
        self._costs.charge(client, len(request.actions))
        return self._grade_replay(bound, request)

    def _grade_log(self, bound: BoundEnv, request: GradeByLog) -> dict[str, Any]:
        task = bound.task(request.task_id)
        _check_length("episode_log", len(request.episode_log), task.episode_length, least=0)
        return _reply(
            bound, task.id, bound.grader.grade_log(task.id, request.episode_log), played_by_log(bound)
        )

    def _grade_session(self, bound: BoundEnv, session: Session) -> dict[str, Any]:
        log = session.log_copy()
        if not log:
            raise EpisodeNotStartedError(
                "This episode has no step yet, so there is nothing to grade.", "Call POST /step first."
            )
        task_id = session.task.id
        result = bound.grader.grade_log(task_id, log, verified=True)
        return _reply(bound, task_id, result, played_of(bound, session.start))

    def _grade_replay(self, bound: BoundEnv, request: GradeByReplay) -> dict[str, Any]:
        task = bound.task(request.task_id)
        _check_length("actions", len(request.actions), task.episode_length)
        actions = bound.parse_actions(request.actions)
        config = bound.parse_config(request.config)
        result = bound.grader.grade_replay(task.id, request.seed, actions, config)
        played = played_of(bound, bound.start(task.id, request.seed, None, config))
        return _reply(bound, task.id, result, played)


class _Turn:
    """One piece of work that waits for a thread, and need not be done once its client has left."""

    def __init__(self, work: Callable[..., Any], on_leave: Callable[[], None]) -> None:
        self._work = work
        self._on_leave: Callable[[], None] | None = on_leave

    async def end_with(self, request: Request) -> None:
        """Leave when the client does."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.leave()

    def leave(self) -> None:
        """Give the place in the queue up, once."""
        on_leave, self._on_leave = self._on_leave, None
        if on_leave is not None:
            on_leave()

    def take(self, *arguments: Any) -> Any:
        """Do the work, in a thread. Raises ClientDisconnect if nobody waits for it."""
        if self._on_leave is None:
            raise ClientDisconnect
        return self._work(*arguments)


class Baseline:
    """The baseline agent's grades, computed once."""

    def __init__(self, bound: BoundEnv) -> None:
        self._bound = bound
        self._lock = threading.Lock()
        self._reply: dict[str, Any] | None = None

    def reply(self) -> dict[str, Any]:
        """Scores and breakdowns on every task, graded by replaying the agent's actions with seed 0."""
        with self._lock:
            if self._reply is None:
                tasks = listed_tasks(self._bound.tasks)
                results = {task_id: self._play(task_id) for task_id in tasks}
                self._reply = {
                    "agent": BASELINE_AGENT,
                    "seed": BASELINE_SEED,
                    "scores": {task_id: result.score for task_id, result in results.items()},
                    "breakdowns": {task_id: result.breakdown for task_id, result in results.items()},
                    "expected_range": {task_id: task.baseline_range for task_id, task in tasks.items()},
                }
            return self._reply

    def _play(self, task_id: str) -> GradeResult:
        bound = self._bound
        agent: Agent = bound.spec.part("agents")[BASELINE_AGENT](task_id, BASELINE_SEED)
        agent.reset()
        episode, observation = bound.begin(bound.start(task_id, BASELINE_SEED, None, None))
        actions: list[dict[str, Any]] = []
        while not episode.done:
            action = agent.act(observation)
            actions.append(action.model_dump(mode="json"))
            observation = episode.step(action)[0]
        return bound.grader.grade_replay(task_id, BASELINE_SEED, actions)


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidJsonError(str(error)) from None
    if not isinstance(document, dict):
        raise InvalidValueError("body", shown(document), "an object", _SHAPES_HINT)
    return cast("dict[str, Any]", document)


def _validated(document: dict[str, Any], shape: type[Shape]) -> Shape:
    try:
        return shape.model_validate(document)
    except ValidationError as error:
        raise explain(error, shape) from None


def _parse(body: bytes) -> GradeRequest:
    document = _document(body)
    shapes = [shape for field, shape in _SHAPES.items() if field in document]
    if len(shapes) != 1:
        which = "none" if not shapes else f"{len(shapes)}"
        raise RejectedError(
            f"The body must have exactly one of {', '.join(_SHAPES)}; it has {which}.", _SHAPES_HINT
        )
    return _validated(document, shapes[0])


def _check_length(field: str, count: int, episode_length: int, least: int = 1) -> None:
    if not least <= count <= episode_length:
        raise RejectedError(
            f"{field}: has {count} entries; allowed: {least} to {episode_length}, one for each step."
        )


def _reply(bound: BoundEnv, task_id: str, result: GradeResult, played: Mapping[str, Any]) -> dict[str, Any]:
    length = bound.task(task_id).episode_length
    feedback = result.feedback
    if 0 < result.steps < length and not result.ended:
        feedback = f"{feedback} The episode is unfinished: {result.steps} of {length} steps."
    if result.verified and not played["standard"]:
        feedback = f"{feedback} {NOT_STANDARD}"
    return {
        "task_id": task_id,
        "score": result.score,
        "breakdown": result.breakdown,
        "feedback": feedback,
        "verified": result.verified,
        "steps": result.steps,
        "figures": result.figures,
        "passed": result.passed,
        **played,
    }
