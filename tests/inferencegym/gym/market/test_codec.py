"""InferenceGym/Market-v0 as gymnasium environments: what both doors refuse alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferencegym.errors import InvalidValueError
from inferencegym.gym.market.env import MarketGymEnv

vector = pytest.importorskip("inferencegym.gym.market.vector")


@pytest.mark.parametrize("change", [0.3, -0.21, float("nan")])
def test_a_change_beyond_the_box_is_refused_by_both(change: float) -> None:
    single = MarketGymEnv(action_mode="dict")
    many = vector.MarketVectorEnv(2, action_mode="dict")
    single.reset(seed=1)
    many.reset(seed=1)
    with pytest.raises(InvalidValueError, match="change"):
        single.step({"change": np.asarray([change])})
    with pytest.raises(InvalidValueError, match="change"):
        many.step({"change": np.full((2, 1), change)})
    assert single.episode.state()["step_count"] == 0


@pytest.mark.parametrize(
    "config", [[], "", 0, {"arrival_rate": 1e-7}, dict.fromkeys(("revenue", "fairness"), -1)]
)
def test_a_bad_config_is_refused_by_both(config: Any) -> None:
    for make in (MarketGymEnv, vector.MarketVectorEnv):
        with pytest.raises(InvalidValueError, match="config"):
            make(config=config)


def test_no_task_is_the_first() -> None:
    assert vector.MarketVectorEnv(1, task_id=None).reset(seed=3)[0] == pytest.approx(
        MarketGymEnv(task_id=None).reset(seed=3)[0][None]
    )
