"""Observation vectors and actions of the codecs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env.serving.batch import OBSERVATION_COLUMNS
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.gym.codec import Feature, GymCodec
from inferencegym.gym.knobs import real
from inferencegym.gym.serving.codec import CODEC, OBSERVATION_NAMES
from inferencegym.gym.vector_codec import VectorCodec
from inferencegym.models.serving import PriorityDistribution, ServeAction, ServeObservation
from tests.inferencegym.gym.tools import MODES

OBSERVATIONS = st.builds(
    ServeObservation,
    priority_distribution=st.sampled_from(
        [
            PriorityDistribution(),
            PriorityDistribution(interactive=0.2, batch=0.5, best_effort=0.3),
            PriorityDistribution(interactive=0.0, batch=0.0, best_effort=1.0),
        ]
    ),
    cost_so_far=st.floats(0.0, 1e4),
)

IDLE = ServeObservation(
    queue_depth=0,
    mean_prompt_len=32.0,
    arrival_rate=0.0,
    kv_cache_occupancy=0.0,
    ttft_p50_ms=0.0,
    tpot_p50_ms=0.0,
    slo_violation_rate=0.0,
    gpu_memory_used_gb=0.0,
    spec_accept_rate=0.0,
    priority_distribution=PriorityDistribution(),
    timestep=0,
    cost_so_far=0.0,
)


def vector(observation: ServeObservation, before: ServeObservation | None = None) -> dict[str, float]:
    values = CODEC.read(observation)
    previous = values if before is None else CODEC.read(before)
    return dict(zip(OBSERVATION_NAMES, CODEC.encode(values, previous).tolist(), strict=True))


@given(OBSERVATIONS, OBSERVATIONS)
@settings(deadline=None)
def test_no_observation_leaves_the_space(now: ServeObservation, before: ServeObservation) -> None:
    encoded = CODEC.encode(CODEC.read(now), CODEC.read(before))
    assert encoded.dtype == np.float32
    assert CODEC.observation_space().contains(encoded)


def test_the_scales() -> None:
    assert set(vector(IDLE).values()) == {0.0, 1.0}  # all arrivals are interactive
    busy = IDLE.model_copy(
        update={
            "queue_depth": 512,
            "mean_prompt_len": 512.0,
            "arrival_rate": 999.0,
            "ttft_p50_ms": 10.0,
            "timestep": 50,
        }
    )
    entries = vector(busy)
    assert entries["queue_depth"] == 1.0
    assert entries["mean_prompt_len"] == pytest.approx(0.5)  # 512 is half way from 32 to 8192 in octaves
    assert entries["arrival_rate"] == pytest.approx(1.0, abs=1e-3)
    assert entries["ttft_p50"] == pytest.approx(math.log(2.0) / math.log(20_001.0))
    assert entries["timestep"] == 0.25


def test_trends_compare_with_the_step_before() -> None:
    slow, fast = (IDLE.model_copy(update={"arrival_rate": rate}) for rate in (10.0, 30.0))
    assert vector(fast, slow)["arrival_trend"] == 0.5
    assert vector(slow, fast)["arrival_trend"] == -0.5
    assert vector(fast)["arrival_trend"] == 0.0
    assert vector(IDLE, IDLE)["queue_trend"] == 0.0


def test_the_columns_are_those_of_a_batch_of_episodes() -> None:
    assert CODEC.sources == OBSERVATION_COLUMNS


@given(st.lists(st.floats(0.0, 1e6), min_size=14, max_size=14), st.lists(st.floats(0.0, 1e6), min_size=14))
@settings(deadline=None)
def test_many_rows_are_encoded_as_one_is(values: list[float], before: list[float]) -> None:
    out = np.zeros((3, len(CODEC.features)), dtype=np.float32)
    rows, previous = (np.asarray([row[:14]] * 3) for row in (values, before))
    VectorCodec(CODEC, OBSERVATION_COLUMNS).encode(1, 2, rows, previous, out)
    assert out[1].tolist() == CODEC.encode(values, before[:14]).tolist()
    assert not out[0].any()


@pytest.mark.parametrize("mode", MODES)
def test_any_sample_is_a_valid_action(mode: Any) -> None:
    space = CODEC.action_space(mode)
    space.seed(0)
    for _ in range(300):
        action = CODEC.decode(mode, space.sample())
        assert ServeAction.model_validate(action.model_dump()) == action


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_decoded_as_single_actions_are(mode: Any) -> None:
    from gymnasium.vector.utils import batch_space, iterate

    space = batch_space(CODEC.action_space(mode), 50)
    space.seed(1)
    actions = space.sample()
    codec = VectorCodec(CODEC, OBSERVATION_COLUMNS)
    rows = codec.rows_of(mode, actions, 50)
    codec.decode(0, 50, mode, rows)
    for row, action in zip(rows, iterate(space, actions), strict=True):
        assert row.tolist() == [float(value) for _, value in CODEC.decode(mode, action)]


def test_spaces_are_made_anew() -> None:
    assert CODEC.action_space("flat") is not CODEC.action_space("flat")
    with pytest.raises(UnknownNameError, match="action_mode"):
        CODEC.action_space("box")


GOOD: dict[str, Any] = {
    "kv_budget": np.asarray([0.5], dtype=np.float32),
    "spec_length": 4,
    "batch_size": 64,
    "prefill_disagg": 1,
    "quant_tier": 2,
}


def test_a_dict_action_is_in_its_own_units() -> None:
    assert CODEC.decode("dict", GOOD) == ServeAction(
        kv_budget=0.5,
        spec_length=8,
        batch_size=64,
        prefill_disagg=True,
        quant_tier="INT4",  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("mode", "action", "field"),
    [
        ("dict", {**GOOD, "kv_budget": 0.05}, "kv_budget"),
        ("dict", {**GOOD, "batch_size": 513}, "batch_size"),
        ("dict", {**GOOD, "batch_size": 2.5}, "batch_size"),
        ("dict", {**GOOD, "spec_length": 5}, "spec_length"),
        ("dict", {**GOOD, "more": 1}, "action"),
        ("dict", {"kv_budget": 0.5}, "action"),
        ("dict", None, "action"),
        ("flat", [0.0] * 4, "action"),
        ("flat", [0.0, math.nan, 0.0, 0.0, 0.0], "spec_length"),
        ("flat", 0.0, "action"),
        ("flat", ["a"] * 5, "action"),
        ("multidiscrete", [10, 0, 0, 0, 0], "kv_budget"),
        ("multidiscrete", [0, 0, 0, 0, -1], "quant_tier"),
        ("multidiscrete", [0] * 6, "action"),
    ],
)
def test_what_is_not_in_the_space_is_refused_by_name(mode: Any, action: Any, field: str) -> None:
    with pytest.raises(InvalidValueError, match=field):
        CODEC.decode(mode, action)


def test_masks() -> None:
    active = ("kv_budget", "batch_size")
    assert CODEC.action_mask(active).tolist() == [1, 0, 1, 0, 0]
    assert [int(mask.sum()) for mask in CODEC.level_masks(active)] == [10, 1, 16, 1, 1]
    for mode in ("dict", "multidiscrete"):
        space = CODEC.action_space(mode)
        space.seed(0)
        for _ in range(20):
            sample = space.sample(mask=CODEC.sample_mask(mode, active))
            action = CODEC.decode(mode, sample)  # type: ignore[arg-type]
            assert (action.spec_length, action.prefill_disagg, action.quant_tier) == (0, False, 0)  # type: ignore[attr-defined]
    assert CODEC.action_space("flat").sample(mask=CODEC.sample_mask("flat", active)) is not None


def test_a_codec_may_leave_fields_at_their_defaults_and_read_a_single_number() -> None:
    codec = GymCodec(
        ServeAction, [Feature("queue", "queue_depth", 0, 512)], [real("kv_budget", 0.1, 1.0, 1.0)]
    )
    values = codec.read(IDLE)
    assert codec.encode(values, values).tolist() == [0.0]
    assert codec.decode("flat", np.asarray([-1.0])) == ServeAction(kv_budget=0.1)
