"""Every term of the classic reward, worked out by hand, and what the rules must not allow."""

from __future__ import annotations

from itertools import product

import pytest

from grader.routing.search import ALL_ACTIONS, best_action, extremes, play, start_of
from inferencegym.models.routing import ModelChoice, RoutingAction, Strategy
from simulator.routing.classic import ClassicGame, ClassicOutcome, ClassicQuery, after, decide
from simulator.routing.classic_games import CLASSIC_GAMES, LARGE_FEE

S, M, L = ModelChoice


def act(strategy: str, model: str = "MEDIUM", exit_flag: bool = False) -> RoutingAction:
    return RoutingAction.model_validate({"strategy": strategy, "model_choice": model, "exit_flag": exit_flag})


def one(
    action: RoutingAction,
    needs: ModelChoice = M,
    carbon: float = 1.0,
    later: float = 1.0,
    **settings: object,
) -> ClassicOutcome:
    """The outcome of one action on one query."""
    in_kb = bool(settings.pop("in_kb", False))
    game = ClassicGame((ClassicQuery("q", "?", needs, in_kb),), (carbon, later), **settings)  # type: ignore[arg-type]
    return decide(game, start_of(game), action)


# (action, what needs it, reward by hand): carbon intensity 1, so energy is the carbon penalty below its cap
BY_HAND = [
    (act("NONE", "SMALL"), S, 1 - 0.1 - 0.1),
    (act("NONE", "MEDIUM"), S, 1 - 0.3 - 0.2),
    (act("NONE", "LARGE"), L, 1 - 0.6 - 0.5),
    (act("NONE", "SMALL"), M, 0 - 0.1 - 0.1),
    (act("NONE", "MEDIUM"), L, 0 - 0.3 - 0.2),
    (act("NONE", "LARGE", exit_flag=True), L, 1 - 0.6 - 0.5),
    (act("DO_CASCADE", "MEDIUM"), M, 1 - (0.1 + 0.3) - 0.1 * (1 + 2)),
    (act("DO_CASCADE", "LARGE"), S, 1 - 0.8 - 0.1 * (1 + 2 + 5)),  # energy 1.0 is cut at 0.8
    (act("DO_CASCADE", "LARGE", exit_flag=True), S, 1 - 0.1 - 0.1),
    (act("DO_CASCADE", "LARGE", exit_flag=True), M, 1 - 0.4 - 0.3),
    (act("DO_CASCADE", "MEDIUM", exit_flag=True), L, 0 - 0.4 - 0.3),
    (act("EARLY_EXIT", "MEDIUM"), S, 1 - 0.6 * 0.3 - 0.1 * 0.6 * 2 + 0.1),
    (act("EARLY_EXIT", "LARGE"), M, 1 - 0.6 * 0.6 - 0.1 * 0.6 * 5 + 0.1),
    (act("EARLY_EXIT", "MEDIUM"), M, 0 - 0.6 * 0.3 - 0.1 * 0.6 * 2),
    (act("EARLY_EXIT", "SMALL"), S, 0 - 0.6 * 0.1 - 0.1 * 0.6),
    (act("USE_CACHE"), S, 0.0),
    (act("CALL_KB"), S, 0 - 0.05 - 0.15),
]


@pytest.mark.parametrize(("action", "needs", "reward"), BY_HAND)
def test_rewards_worked_out_by_hand(action: RoutingAction, needs: ModelChoice, reward: float) -> None:
    assert one(action, needs).reward == pytest.approx(reward, abs=1e-12)


def test_a_cache_hit_by_hand() -> None:
    hit = one(act("USE_CACHE"), L, cached=frozenset({"q"}))
    assert (hit.score, hit.cache_bonus, hit.carbon_penalty, hit.latency_penalty) == (1.0, 0.5, 0.0, 0.0)
    assert hit.reward == 1.5


def test_the_knowledge_base_by_hand() -> None:
    found = one(act("CALL_KB"), L, carbon=0.8, in_kb=True)
    assert found.reward == pytest.approx(1 - 0.8 * 0.05 - 0.15)


def test_waiting_by_hand() -> None:
    waited = one(act("WAIT", "MEDIUM"), M, carbon=1.5, later=0.6)
    assert waited.reward == pytest.approx(1 - 0.6 * 0.3 - 0.1 * (2 + 1))


def test_the_carbon_penalty_is_cut_at_its_cap() -> None:
    assert one(act("NONE", "LARGE"), L, carbon=1.3).carbon_penalty == pytest.approx(-0.78)
    assert one(act("NONE", "LARGE"), L, carbon=1.4).carbon_penalty == -0.8


@pytest.mark.parametrize(
    ("action", "needs", "fee"),
    [
        (act("NONE", "LARGE"), S, True),
        (act("EARLY_EXIT", "LARGE"), S, True),
        (act("WAIT", "LARGE"), S, True),
        (act("DO_CASCADE", "LARGE"), S, True),
        (act("DO_CASCADE", "LARGE", exit_flag=True), L, True),
        (act("DO_CASCADE", "LARGE", exit_flag=True), M, False),  # stopped before it ran
        (act("USE_CACHE", "LARGE"), S, False),  # chosen, not used
        (act("CALL_KB", "LARGE"), S, False),
        (act("NONE", "MEDIUM"), S, False),
    ],
)
def test_task_2_subtracts_for_the_large_model_only_when_it_ran(
    action: RoutingAction, needs: ModelChoice, fee: bool
) -> None:
    outcome = one(action, needs, large_fee=LARGE_FEE)
    assert outcome.large_fee == (-LARGE_FEE if fee else 0.0)
    assert one(action, needs).reward + outcome.large_fee == pytest.approx(outcome.reward)


def test_correct_answers_are_cached_and_wrong_ones_are_not() -> None:
    game = ClassicGame((ClassicQuery("q", "?", M), ClassicQuery("q", "?", M)), (1.0,) * 4)
    for action, cached in ((act("NONE", "MEDIUM"), True), (act("NONE", "SMALL"), False)):
        start = start_of(game)
        state = after(game, start, action, decide(game, start, action))
        assert (decide(game, state, act("USE_CACHE")).reward == 1.5) == cached


def test_time_moves_on_by_one_slot_and_by_two_when_waiting() -> None:
    game = ClassicGame((ClassicQuery("a", "?", S), ClassicQuery("b", "?", S)), (0.1, 0.2, 0.3, 0.4))
    start = start_of(game)
    for strategy, slot in (("NONE", 1), ("USE_CACHE", 1), ("WAIT", 2)):
        assert after(game, start, act(strategy), decide(game, start, act(strategy))).slot == slot


@pytest.mark.parametrize("model", ["SMALL", "MEDIUM", "LARGE"])
@pytest.mark.parametrize("fall", [0.0, 0.1, 0.16, 0.17, 0.33, 0.34, 0.5, 0.99, 1.01])
def test_waiting_helps_exactly_when_carbon_falls_enough_to_pay(model: str, fall: float) -> None:
    """Waiting costs 0.1 and saves energy × fall, below the cap."""
    energy = {"SMALL": 0.1, "MEDIUM": 0.3, "LARGE": 0.6}[model]
    carbon = 1.3
    now = one(act("NONE", model), S, carbon=carbon).reward
    waited = one(act("WAIT", model), S, carbon=carbon, later=carbon - fall).reward
    assert (waited > now) == (energy * fall > 0.1)


def test_an_early_exit_does_not_dominate_the_whole_model() -> None:
    """Of the same model and of any: there are queries where each kind is the better one."""
    for model in ("SMALL", "MEDIUM", "LARGE"):
        exact = ModelChoice[model]
        assert one(act("NONE", model), exact).reward > one(act("EARLY_EXIT", model), exact).reward
    for needs, carbon in [*product((S, M), (0.2, 0.9, 1.1, 1.6)), (L, 0.2)]:
        whole = max(one(act("NONE", m.name), needs, carbon).reward for m in ModelChoice)
        early = max(one(act("EARLY_EXIT", m.name), needs, carbon).reward for m in ModelChoice)
        assert (early > whole) == (needs == S and carbon < 1.0)


@pytest.mark.parametrize("task_id", list(CLASSIC_GAMES))
def test_no_constant_action_is_optimal(task_id: str) -> None:
    """Over the games of the task; and in no single game of more than one query."""
    games = CLASSIC_GAMES[task_id]
    for action in ALL_ACTIONS:
        totals = [play(game, (action,) * len(game.queries)) for game in games]
        optima = [extremes(game).optimum for game in games]
        assert sum(totals) < sum(optima) - 0.5
        if len(games[0].queries) > 1:
            assert all(total < optimum - 0.05 for total, optimum in zip(totals, optima, strict=True))


def test_every_strategy_but_the_cascade_is_part_of_some_optimum() -> None:
    """A cascade is for those who do not know what a query needs; who does can do as well without."""
    games = [game for games in CLASSIC_GAMES.values() for game in games]
    used = {action.strategy for game in games for action in extremes(game).best}
    assert used == set(Strategy) - {Strategy.DO_CASCADE}
    for game in games:
        start = start_of(game)
        assert best_action(game, start) == extremes(game).best[0]
