"""Reference agents of InferenceGym/Serving-v0 by name.

========  =============================================================================================
name      policy
========  =============================================================================================
random    uniform over the action space, afresh every step
zero      the least of everything: one sequence, a tenth of the KV pool
baseline  the default action for ever: batch 32, all of the KV pool, nothing else
static    the best constant setting that calibration found for the task
reactive  a hand-written rule on queue, arrivals and memory; no search behind it
adaptive  the best two-mode policy that calibration found for the task
mpc       a short look-ahead on copied simulators, around the reactive rule
(:mod:`agents.serving.model_predictive`)
evolved   the best parameters that CMA-ES found for a small policy (:mod:`agents.serving.evolved`)
ppo       the network that PPO trained (:mod:`agents.ppo.demo`)
llm       a language model behind a chat service (needs a key, see :mod:`agents.llm.api`)
========  =============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.shared import llm_agent, ppo_agent
from env.serving.tasks import get_task, load_calibration
from grader.serving.calibrate import UniformRandom
from grader.serving.policies import Constant, TwoMode, policy_from_dict
from inferencegym.models.serving import QuantTier, ServeAction

__all__ = ["AGENTS"]


def random_agent(task_id: str, seed: int) -> UniformRandom:
    """Uniformly random actions; the seed of the episode also seeds the draws."""
    get_task(task_id)
    return UniformRandom(seed)


def zero_agent(task_id: str, seed: int) -> Constant:
    """The smallest value of every knob."""
    get_task(task_id)
    return Constant(ServeAction(kv_budget=0.1, batch_size=1))


def baseline_agent(task_id: str, seed: int) -> Constant:
    """The default action."""
    get_task(task_id)
    return Constant()


def static_agent(task_id: str, seed: int) -> Constant | TwoMode:
    """The best constant setting of the calibration."""
    return policy_from_dict(load_calibration()["tasks"][get_task(task_id).info.id]["best_static"])


def adaptive_agent(task_id: str, seed: int) -> Constant | TwoMode:
    """The best two-mode policy of the calibration."""
    return policy_from_dict(load_calibration()["tasks"][get_task(task_id).info.id]["best_adaptive"])


def reactive_agent(task_id: str, seed: int) -> TwoMode:
    """What an engineer would write down before measuring anything: big batches, a cheap quiet mode, and a
    burst mode from the first sign of a surge until the queue is gone."""
    task = get_task(task_id)
    surge_rps = 1.5 * task.workload.arrivals.rate_rps
    quiet, busy = _REACTIVE_MODES[task.info.id]
    return TwoMode(quiet, busy, rate_on_rps=surge_rps, queue_on=8, queue_off=2)


def mpc_agent(task_id: str, seed: int) -> Any:
    """Model-predictive control."""
    from agents.serving.model_predictive import ModelPredictive

    return ModelPredictive(get_task(task_id).info.id, seed)


def evolved_agent(task_id: str, seed: int) -> Any:
    """The committed evolved policy. Raises InferenceGymError when the task has none."""
    from agents.serving.evolved_policy import load_agent

    return load_agent(task_id)


_ALL_KNOBS = (
    ServeAction(kv_budget=0.9, batch_size=128, spec_length=1, quant_tier=QuantTier.INT8),
    ServeAction(kv_budget=0.9, batch_size=128, quant_tier=QuantTier.INT8, prefill_disagg=True),
)

_REACTIVE_MODES = {
    "task1": (ServeAction(batch_size=224), ServeAction(batch_size=224)),
    "task2": (
        ServeAction(kv_budget=0.75, batch_size=128, spec_length=1),
        ServeAction(kv_budget=0.80, batch_size=192),
    ),
    "task3": _ALL_KNOBS,
    # Recorded traffic: rewarded as task 3.
    "azure-conversation": _ALL_KNOBS,
    "azure-code": _ALL_KNOBS,
    "mooncake-conversation": _ALL_KNOBS,
}

AGENTS: dict[str, Callable[[str, int], Any]] = {
    "random": random_agent,
    "zero": zero_agent,
    "baseline": baseline_agent,
    "static": static_agent,
    "reactive": reactive_agent,
    "adaptive": adaptive_agent,
    "mpc": mpc_agent,
    "evolved": evolved_agent,
    "ppo": ppo_agent("serving"),
    "llm": llm_agent("serving"),
}
"""Factories ``(task_id, seed) -> agent``."""
