"""Vector layout of InferenceGym/Routing-v0.

===  =======================  ========  ==============================================================
 i   name                     bounds    of the observation
===  =======================  ========  ==============================================================
0–2  small, medium, large     [0, 1]    accuracy of each model in the query's category
 3   difficulty               [0, 1]    difficulty_estimate
 4   answer_tokens            [0, 1]    log, 0 to 20,000 tokens, linear below 100
 5   deadline                 [0, 1]    share of 8 hours
 6   hour                     [0, 1]    share of the day
 7   carbon                   [0, 1]    log, 0 to 1,000, linear below 0.5 (classic units and g CO₂/kWh)
 8   carbon_if_wait           [0, 1]    the same
 9   wait                     [0, 1]    share of 12 hours
10   waiting                  [0, 1]    share of 32 queries
11   cache_similarity         [0, 1]    as it is
12   cache_age                [0, 1]    share of 24 hours
13   kb_available             [0, 1]    as it is
14   kb_age                   [0, 1]    share of 24 hours
15+  load of each model       [0, 1]    as it is
18+  each model up            [0, 1]    as it is
21   queries_left             [0, 1]    log, 0 to 400
===  =======================  ========  ==============================================================

Texts are left out. Actions: strategy, model_choice, exit_flag, in this order.
"""

from __future__ import annotations

from inferencegym.gym.codec import Feature, GymCodec, Panel
from inferencegym.gym.knobs import choice, flag
from inferencegym.models.routing import ModelChoice, RoutingAction, Strategy

__all__ = ["CODEC", "ENTRY_POINT", "VECTOR_ENTRY_POINT"]


_CARBON_MAX = 1000.0
_DAY_H = 24.0

_FEATURES = (
    Feature("accuracy_small", "category_accuracy.small"),
    Feature("accuracy_medium", "category_accuracy.medium"),
    Feature("accuracy_large", "category_accuracy.large"),
    Feature("difficulty", "difficulty_estimate"),
    Feature("answer_tokens", "answer_tokens_estimate", 0, 20_000.0, "log", 100.0),
    Feature("deadline", "deadline_h", 0, 8.0),
    Feature("hour", "hour", 0, _DAY_H),
    Feature("carbon", "carbon_intensity", 0, _CARBON_MAX, "log", 0.5),
    Feature("carbon_if_wait", "carbon_if_wait", 0, _CARBON_MAX, "log", 0.5),
    Feature("wait", "wait_h", 0, 12.0),
    Feature("waiting", "waiting", 0, 32.0),
    Feature("cache_similarity", "cache_similarity"),
    Feature("cache_age", "cache_age_h", 0, _DAY_H),
    Feature("kb_available", "kb_available"),
    Feature("kb_age", "kb_age_h", 0, _DAY_H),
    Feature("load_small", "model_load.small"),
    Feature("load_medium", "model_load.medium"),
    Feature("load_large", "model_load.large"),
    Feature("up_small", "models_up.small"),
    Feature("up_medium", "models_up.medium"),
    Feature("up_large", "models_up.large"),
    Feature("queries_left", "queries_left", 0, 400.0, "log"),
)

ENTRY_POINT = "inferencegym.gym.routing.env:RoutingGymEnv"
VECTOR_ENTRY_POINT = "inferencegym.gym.routing.vector:routing_vector_env"

CODEC = GymCodec(
    RoutingAction,
    _FEATURES,
    (
        choice("strategy", tuple(Strategy), default=Strategy.NONE),
        choice("model_choice", tuple(ModelChoice), default=ModelChoice.MEDIUM),
        flag("exit_flag", default=False),
    ),
    (
        Panel("co2_g", "carbon (g CO2)"),
        Panel("energy_wh", "energy (Wh)"),
        Panel("correct", "answered correctly"),
        Panel("latency_s", "latency (s)"),
        Panel("reward", "reward"),
    ),
)
