"""Digests of whole episodes, through every door: what must not change unless a change says so.

Other tests compare two computations of today; a fault in what both share passes them. A digest here is of
what was computed when it was committed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any

import gymnasium
import httpx
import numpy as np

from inferencegym.registry import EnvSpec, all_specs
from tests.live import ROOT

FILE = Path(__file__).with_name("digests.json")
SEEDS = (0, 1)
COPIES = 3
"""Of a task, side by side in a vector."""

Digests = dict[str, str]


def canonical(value: Any) -> bytes:
    """JSON with sorted keys; floats to the last bit."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def _digest(parts: Sequence[Any]) -> str:
    return sha256(b"\n".join(map(canonical, parts))).hexdigest()[:16]


def _serving(rng: random.Random) -> dict[str, Any]:
    return {
        "kv_budget": rng.choice([0.3, 0.6, 1.0]),
        "spec_length": rng.choice([0, 1, 2, 4, 8]),
        "batch_size": rng.choice([1, 16, 64, 200, 512]),
        "prefill_disagg": rng.random() < 0.3,
        "quant_tier": rng.randrange(3),
    }


def _routing(rng: random.Random) -> dict[str, Any]:
    return {
        "strategy": rng.choice(["NONE", "USE_CACHE", "DO_CASCADE", "EARLY_EXIT", "WAIT", "CALL_KB"]),
        "model_choice": rng.choice(["SMALL", "MEDIUM", "LARGE"]),
        "exit_flag": rng.random() < 0.5,
    }


RANDOM: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "serving": _serving,
    "autoscaling": lambda rng: {"action": rng.choice(["scale_up", "scale_down", "no_op"])},
    "routing": _routing,
    "market": lambda rng: {"change": rng.choice([-0.2, -0.05, 0.0, 0.05, 0.2])},
}
FIXED: dict[str, list[dict[str, Any]]] = {
    "serving": [{}],
    "autoscaling": [{"action": "no_op"}, {"action": "no_op"}, {"action": "scale_up"}],
    "routing": [{"strategy": "DO_CASCADE", "model_choice": "SMALL", "exit_flag": False}],
    "market": [{}],
}


def actions_of(name: str, kind: str, seed: int) -> Iterator[dict[str, Any]]:
    """Actions without end: always the same, or drawn."""
    if kind == "fixed":
        return cycle(FIXED[name])
    rng = random.Random(seed)
    return iter(lambda: RANDOM[name](rng), None)


def single(spec: EnvSpec, task: str, seed: int, kind: str) -> str:
    """An episode in this process, with the grade of its replay."""
    model = spec.part("action_model")
    env = spec.part("make_env")(task, seed)
    seen: list[Any] = [env.reset()]
    played: list[Any] = []
    for fields in actions_of(spec.name, kind, seed):
        if env.done:
            break
        action = model(**fields)
        seen.append(env.step(action))
        played.append(action.model_dump(mode="json"))
    grade = spec.part("grader").grade_replay(task, seed, played)
    return _digest([*seen, grade.score, grade.breakdown, grade.figures])


def over_http(url: str, mount: str, name: str, task: str, seed: int) -> str:
    """An episode of drawn actions over a socket: every reply without the session's name, and the grade."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        reply = client.post(f"{mount}/reset", json={"task_id": task, "seed": seed}).json()
        session, _ = reply.pop("session_id"), reply.pop("episode_id")
        seen = [reply]
        for action in actions_of(name, "random", seed):
            reply = client.post(f"{mount}/step", json={"session_id": session, "action": action}).json()
            seen.append(reply)
            if reply["done"]:
                break
        grade = client.post(f"{mount}/grader", json={"session_id": session}).json()
    return _digest([*seen, {key: grade[key] for key in ("score", "verified", "steps", "breakdown")}])


def through_gymnasium(spec: EnvSpec, task: str, seed: int) -> str:
    """An episode of sampled actions."""
    env: Any = gymnasium.make(f"inferencegym.gym:{spec.id}", task_id=task)
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    digest, over = sha256(np.asarray(observation).tobytes()), False
    while not over:
        observation, reward, ended, cut, _ = env.step(env.action_space.sample())
        digest.update(np.asarray(observation).tobytes() + np.float64(reward).tobytes())
        over = ended or cut
    env.close()
    return digest.hexdigest()[:16]


def vector(spec: EnvSpec, task: str, seed: int) -> str:
    """A whole episode and the beginning of the next one, several copies side by side in machine code."""
    envs: Any = gymnasium.make_vec(
        f"inferencegym.gym:{spec.id}",
        num_envs=COPIES,
        vectorization_mode="vector_entry_point",
        task_id=task,
    )
    envs.action_space.seed(seed)
    observation, _ = envs.reset(seed=seed)
    digest = sha256(np.asarray(observation).tobytes())
    ended, after = 0, 5
    while ended == 0 or after > 0:
        observation, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
        for part in (observation, reward, terminated, truncated):
            digest.update(np.asarray(part).tobytes())
        ended += int(np.sum(terminated) + np.sum(truncated))
        after -= ended > 0
    envs.close()
    return digest.hexdigest()[:16]


def tables() -> Digests:
    """Committed score tables, whatever folder they lie in."""
    files = [*ROOT.glob("agents/**/results/*.json"), *ROOT.glob("env/**/calibration*.json")]
    return {f"table {file.name}": sha256(file.read_bytes()).hexdigest()[:16] for file in sorted(files)}


def in_process(spec: EnvSpec) -> Digests:
    """Every task of an environment, both kinds of actions, seeds :data:`SEEDS`; gymnasium and vectors."""
    found: Digests = {}
    for task in spec.part("tasks"):
        for seed in SEEDS:
            for kind in ("fixed", "random"):
                found[f"single {spec.name} {task} {seed} {kind}"] = single(spec, task, seed, kind)
        found[f"gymnasium {spec.name} {task}"] = through_gymnasium(spec, task, 0)
        found[f"vector {spec.name} {task}"] = vector(spec, task, 0)
    return found


def from_server(url: str) -> Digests:
    """The same drawn episodes through REST."""
    return {
        f"http {spec.name} {task}": over_http(url, spec.mount, spec.name, task, 0)
        for spec in all_specs()
        for task in spec.part("tasks")
    }
