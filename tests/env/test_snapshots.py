"""Every environment takes back its own snapshots alone; what it refuses changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from env.protocols import Episode
from inferencegym.errors import InvalidValueError
from inferencegym.registry import all_specs

ENVS = [(spec.name, task) for spec in all_specs() for task in list(spec.part("tasks"))[:3]]
ENVS.append(("routing", "stream_3"))


def started(name: str, task_id: str, seed: int = 1) -> Episode:
    spec = next(spec for spec in all_specs() if spec.name == name)
    env: Episode = spec.part("make_env")(task_id, seed)
    env.reset()
    return env


@pytest.mark.parametrize(("name", "task_id"), ENVS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: None,
        lambda _: {},
        lambda _: [],
        list,
        lambda kept: {**kept, "more": 1},
        lambda kept: {key: kept[key] for key in list(kept)[1:]},
        lambda kept: {**kept, "seed": -1},
        lambda kept: {**kept, "seed": 1.5},
        lambda kept: {**kept, "cumulative_reward": float("nan")},
        lambda kept: {**kept, "cumulative_reward": "x"},
    ],
)
def test_junk_is_refused(name: str, task_id: str, spoil: Callable[[Any], Any]) -> None:
    env = started(name, task_id)
    kept, before = env.snapshot(), env.state()
    with pytest.raises(InvalidValueError, match="snapshot"):
        env.restore(spoil(kept))
    assert env.state() == before
    env.restore(kept)


@pytest.mark.parametrize(("name", "task_id"), [each for each in ENVS if each[0] != "autoscaling"])
@pytest.mark.parametrize("count", ["x", -5, 1.0, True, None, 10_000])
def test_a_step_count_that_cannot_be_is_refused(name: str, task_id: str, count: Any) -> None:
    env = started(name, task_id)
    before = env.state()
    with pytest.raises(InvalidValueError, match=r"snapshot\.step_count"):
        env.restore({**env.snapshot(), "step_count": count})
    assert env.state() == before


@pytest.mark.parametrize("task_id", ["task_1", "stream_2"])
@pytest.mark.parametrize("spoil", [list, lambda play: play[:-1], lambda play: (*play[:-1], "x")])
def test_a_routing_world_of_another_shape_is_refused(task_id: str, spoil: Callable[[Any], Any]) -> None:
    env = started("routing", task_id)
    kept = env.snapshot()
    with pytest.raises(InvalidValueError, match=r"snapshot\.play"):
        started("routing", task_id, seed=7).restore({**kept, "play": spoil(kept["play"])})


def test_short_lists_of_a_stream_are_refused() -> None:
    env = started("routing", "stream_1")
    kept = env.snapshot()
    lists, *rest = kept["play"]
    with pytest.raises(InvalidValueError, match=r"snapshot.play\[0\]\[0\]"):
        env.restore({**kept, "play": ([lists[0][:-1], *lists[1:]], *rest)})
