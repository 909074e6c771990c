"""``python -m server.bench.process``: an environment's speed in this process, without any server.

For every task, under random actions and under the baseline's: steps a second, and milliseconds of a reset.
Next to them, measured in turns with them, two yardsticks of this machine and this Python: a fixed loop of
plain arithmetic, and the construction of a validated observation. A step is given as a multiple of the loop
too, which is the figure to compare between machines.

Each figure is the mean of several rounds with its standard deviation. Time is the processor time of this
process, so that other work on the machine disturbs less; on a quiet machine it is the time that passes.
``python -m server.bench.main`` prints these figures and the server's in one run.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

from env.protocols import Agent, Episode, listed_tasks
from inferencegym.registry import EnvSpec, all_specs

__all__ = ["main", "measure", "random_actions"]

ROUNDS = 7
EPISODES = 4
"""Episodes of each task and policy in a round, on seeds 100 and up."""

FIRST_SEED = 100
LOOP_ITERATIONS = 1_000
LOOP_REPEATS = 100
CONSTRUCTIONS = 2_000


def random_actions(schema: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """``count`` actions drawn from their JSON schema, always the same: any field with choices or bounds."""
    rng = random.Random(0)
    return [{name: _draw(field, rng) for name, field in schema["properties"].items()} for _ in range(count)]


def _draw(field: dict[str, Any], rng: random.Random) -> Any:
    field = next(iter(field.get("anyOf", [field])))
    if "enum" in field:
        return rng.choice(field["enum"])
    if field["type"] == "boolean":
        return rng.random() < 0.5
    if field["type"] == "integer":
        return rng.randint(field["minimum"], field["maximum"])
    return rng.uniform(field["minimum"], field["maximum"])


def python_loop_us() -> float:
    """Microseconds of 1,000 turns of a loop with a multiplication and an addition."""
    started = time.process_time()
    for _ in range(LOOP_REPEATS):
        x = 0.0
        for i in range(LOOP_ITERATIONS):
            x = x * 0.5 + i
    return 1e6 * (time.process_time() - started) / LOOP_REPEATS


def observation_us(spec: EnvSpec) -> float:
    """Microseconds to build one validated observation from its fields."""
    model: Any = spec.part("observation_model")
    episode: Episode = spec.part("make_env")(next(iter(spec.part("tasks"))), FIRST_SEED)
    fields = dict(episode.reset())
    started = time.process_time()
    for _ in range(CONSTRUCTIONS):
        model(**fields)
    return 1e6 * (time.process_time() - started) / CONSTRUCTIONS


def play(episode: Episode, actions: Sequence[Any], episodes: int) -> tuple[float, float]:
    """Seconds of a step and of a reset, over whole episodes."""
    steps, step_s, reset_s = 0, 0.0, 0.0
    for seed in range(FIRST_SEED, FIRST_SEED + episodes):
        started = time.process_time()
        episode.reset(seed)
        begun = time.process_time()
        reset_s += begun - started
        while not episode.done:
            episode.step(actions[steps % len(actions)])
            steps += 1
        step_s += time.process_time() - begun
    return step_s / steps, reset_s / episodes


class _Timing(NamedTuple):
    """One round of one task and policy; the loop ran right before it."""

    loop_us: float
    step_s: float
    reset_s: float


def measure(spec: EnvSpec, rounds: int = ROUNDS, episodes: int = EPISODES) -> dict[str, Any]:
    """All figures of one environment; see the module's docstring."""
    model: Any = spec.part("action_model")
    chosen = [model.model_validate(action) for action in random_actions(model.model_json_schema(), 64)]
    players: dict[tuple[str, str], tuple[Episode, list[Any]]] = {}
    for task in listed_tasks(spec.part("tasks")):
        episode: Episode = spec.part("make_env")(task, FIRST_SEED)
        baseline: Agent = spec.part("agents")["baseline"](task, FIRST_SEED)
        players[task, "random"] = (episode, chosen)
        players[task, "baseline"] = (episode, [baseline.act(episode.reset())])
    observations: list[float] = []
    timings: dict[tuple[str, str], list[_Timing]] = {key: [] for key in players}
    for _ in range(rounds):
        observations.append(observation_us(spec))
        for key, player in players.items():
            timings[key].append(_Timing(python_loop_us(), *play(*player, episodes)))
    loops = [timing.loop_us for group in timings.values() for timing in group]
    report: dict[str, Any] = {
        "yardsticks": {
            "python_loop_of_1000_us": _spread(loops),
            "validated_observation_us": _spread(observations),
        }
    }
    for (task, policy), group in timings.items():
        report.setdefault(task, {})[policy] = {
            "steps_per_s": _spread([1.0 / timing.step_s for timing in group], _whole),
            "step_in_python_loops": _spread([1e6 * timing.step_s / timing.loop_us for timing in group]),
            "reset_ms": _spread([1e3 * timing.reset_s for timing in group]),
        }
    return report


def _hundredths(value: float) -> float:
    return round(value, 2)


def _whole(value: float) -> float:
    return round(value)


def _spread(values: Sequence[float], rounded: Callable[[float], float] = _hundredths) -> dict[str, float]:
    deviation = stdev(values) if len(values) > 1 else 0.0
    return {"mean": rounded(mean(values)), "sd": rounded(deviation)}


def main() -> None:
    """Print the figures of every environment."""
    print(json.dumps({spec.id: measure(spec) for spec in all_specs()}, indent=2))


if __name__ == "__main__":
    main()
