"""The three tasks of InferenceGym/Serving-v0: what is asked, which knobs are free, how steps are weighed.

Traffic and service levels are in ``simulator/data/workload_configs.json``; measured normalisers in
``env/calibration.json`` (written by ``python -m grader.serving.calibrate``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from env.protocols import TaskInfo, TaskName, task_named
from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import DEFAULT_EPISODE_LENGTH, EngineTiming, ServeAction
from simulator.packs.on_offer import DEFAULT_PACK, SHIPPED, pack_name, pack_path
from simulator.serving.traffic.config import WorkloadConfig, get_workload

__all__ = [
    "ALL_TASKS",
    "CALIBRATION_PATH",
    "TASKS",
    "RewardWeights",
    "ServingTask",
    "calibrated",
    "calibration_path",
    "get_task",
    "load_calibration",
]

CALIBRATION_PATH = Path(__file__).parents[1] / "calibration.json"


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """Weights of reward = alpha*T - beta*L - gamma*V - delta*C."""

    alpha: float = 0.40
    beta: float = 0.25
    gamma: float = 0.25
    delta: float = 0.10


@dataclass(frozen=True, slots=True)
class ServingTask:
    """A task: its public description, reward weights, workload and engine timing."""

    info: TaskInfo
    weights: RewardWeights
    engine_timing: EngineTiming = "additive"
    """How its engines are timed where nothing else is asked for."""

    @property
    def workload(self) -> WorkloadConfig:
        return get_workload(self.info.id)

    @property
    def masked_actions(self) -> tuple[str, ...]:
        """Knobs that this task holds at their defaults."""
        return tuple(name for name in ServeAction.model_fields if name not in self.info.active_actions)


def _task(
    task_id: str,
    name: str,
    difficulty: Literal["easy", "medium", "hard"],
    description: str,
    active: tuple[str, ...],
    weights: RewardWeights,
    aliases: tuple[str, ...] = (),
    baseline_range: tuple[float, float] | None = None,
    listed: bool = True,
) -> ServingTask:
    info = TaskInfo(
        task_id,
        name,
        difficulty,
        description,
        active,
        DEFAULT_EPISODE_LENGTH,
        aliases,
        listed=listed,
        baseline_range=baseline_range,
    )
    return ServingTask(info, weights)


def _recorded_task(
    task_id: str, name: str, difficulty: Literal["easy", "medium", "hard"], traffic: str
) -> ServingTask:
    """A task beyond the three: traffic of a public trace, all knobs, rewarded as task3, timed as engines are
    deployed: in mixed batches."""
    description = f"{traffic} Scored on SLO compliance, cost and stability."
    task = _task(task_id, name, difficulty, description, _ALL_KNOBS, _HARD, listed=False)
    return replace(task, engine_timing="mixed_batch")


_ALL_KNOBS = tuple(ServeAction.model_fields)
# In the order that knobs are opened from task to task: the weights of task 3's evolved policy lie in it.
_TASK3_KNOBS = ("kv_budget", "batch_size", "spec_length", "prefill_disagg", "quant_tier")
_HARD = RewardWeights(gamma=0.35, delta=0.15)


_SERVING_TASKS = {
    task.info.id: task
    for task in (
        _task(
            "task1",
            "Static Uniform",
            "easy",
            "Ten short prompts a second, each wanting about a thousand tokens back: more than the engine can "
            "give. Find the batch size and KV budget that produce the most tokens without running out of "
            "memory. Scored on throughput.",
            ("kv_budget", "batch_size"),
            RewardWeights(),
            ("1", "task_1", "easy"),
            (0.30, 0.40),
        ),
        _task(
            "task2",
            "Bursty ShareGPT",
            "medium",
            "Chat traffic with log-normal prompt lengths and bursts to 80 requests a second every 30 "
            "seconds. Keep the median time to first token far below 300 ms and reserve no more than 36 GB. "
            "Scored half on TTFT, half on peak memory.",
            ("kv_budget", "batch_size", "spec_length"),
            RewardWeights(gamma=0.30),
            ("2", "task_2", "medium"),
            (0.22, 0.35),
        ),
        _task(
            "task3",
            "Adversarial Multi-Tenant",
            "hard",
            "Three priority classes, short chats mixed with documents of thousands of tokens, and a tenfold "
            "burst every 120 seconds that comes when it likes. Serve the burst, spend little in between. "
            "Scored on throughput, SLO compliance, cost and stability.",
            _TASK3_KNOBS,
            _HARD,
            ("3", "task_3", "hard"),
            (0.18, 0.30),
        ),
        _recorded_task(
            "azure-conversation",
            "Azure conversation",
            "medium",
            "An hour of a chat service (Azure, 2023) at 1.2 times its rate: prompts of a thousand tokens, "
            "answers of two hundred, and a slow swell. The first token is due within 500 ms.",
        ),
        _recorded_task(
            "azure-code",
            "Azure code completion",
            "hard",
            "An hour of a code completion service (Azure, 2023), shared by two engines: two thousand tokens "
            "in, a line out, silence for minutes, then forty requests a second. The first token is due "
            "within 1 s.",
        ),
        _recorded_task(
            "mooncake-conversation",
            "Mooncake conversation",
            "hard",
            "An hour of a long-context chat service (Mooncake, 2024), shared by two engines: prompts of many "
            "thousand tokens, counted up to 8,192. The first token is due within 5 s.",
        ),
    )
}

ALL_TASKS: dict[str, TaskInfo] = {task_id: task.info for task_id, task in _SERVING_TASKS.items()}
"""Tasks by id: the three of the benchmark, easiest first, then those on traffic of public traces."""

TASKS: dict[str, TaskInfo] = {task_id: info for task_id, info in ALL_TASKS.items() if info.listed}
"""The three."""


def get_task(task_id: TaskName) -> ServingTask:
    """A task by id or alias. Raises UnknownNameError with near matches."""
    return _SERVING_TASKS[task_named(ALL_TASKS, task_id).id]


def calibration_path(pack: str) -> Path:
    """Where the anchors of a trace pack are kept, whether or not they are there."""
    return (
        CALIBRATION_PATH if pack == DEFAULT_PACK else CALIBRATION_PATH.with_name(f"calibration_{pack}.json")
    )


def calibrated(pack: str, task_id: str, timing: EngineTiming) -> dict[str, Any] | None:
    """Anchors of a task with a trace pack and an engine timing; None where none come with the project."""
    if pack not in SHIPPED or not calibration_path(pack).is_file():
        return None
    document = load_calibration(pack)
    own = timing == get_task(task_id).engine_timing
    tasks: dict[str, Any] = document["tasks"] if own else document["engine_timings"][timing]
    return tasks.get(task_id)


def load_calibration(pack: str | None = None) -> dict[str, Any]:
    """Anchors and reference policies of a shipped trace pack; of the default pack for None.

    Raises:
        InvalidValueError: a pack whose anchors do not come with the project.
    """
    return _load_calibration(pack_name(pack_path()) if pack is None else pack)


@cache
def _load_calibration(pack: str) -> dict[str, Any]:
    if pack not in SHIPPED:
        raise InvalidValueError("trace_pack", pack, f"a pack with calibrated policies: {', '.join(SHIPPED)}")
    return json.loads(calibration_path(pack).read_text())
