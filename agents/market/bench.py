"""``python -m agents.market.bench``: hours a second that the market's engines play, without gymnasium.

Prints one JSON document. Hours of the opening day count; the rule sets the prices, scenario surge. Every
figure stands beside its rate per second of CPU time, which other work on the machine disturbs least. For
gymnasium's doors see ``python -m inferencegym.gym.benchmark``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from agents.compare.episodes import cpu_count
from agents.market.play import make_demand, named_policy, play_market
from agents.market.policies import PARAMETER_NAMES
from inferencegym.extras import extra_hint, missing
from inferencegym.models.market import EPISODE_HOURS
from simulator.market.config import load_market
from simulator.market.kernel import OPENING_HOURS

try:
    from agents.market.arena import RULE, MarketArena
except ModuleNotFoundError as error:
    raise missing("The compiled engine", error, extra_hint("gym"), __name__) from None

__all__ = ["main", "measure"]

SCENARIO = "surge"
LOOP = 1000


def measure(episodes: int = 1000) -> dict[str, dict[str, int]]:
    """Rates of the plain engine, of the compiled one on one thread and on all, and of a reference loop."""
    setup = load_market().setup(SCENARIO)
    policy, nothing = named_policy("rule", setup), [(0,) * len(PARAMETER_NAMES)]
    found: dict[str, dict[str, int]] = {}

    def plain() -> int:
        return sum(
            sum(1 for _ in play_market(setup, policy, make_demand(setup, seed))) + OPENING_HOURS
            for seed in range(max(1, episodes // 50))
        )

    found["plain_engine"] = _rate(plain)
    for threads in dict.fromkeys((1, cpu_count())):
        arena = MarketArena(setup, EPISODE_HOURS, threads)
        arena.play(RULE, nothing, range(2))  # compiles

        def compiled(arena: MarketArena = arena) -> int:
            played = arena.play(RULE, nothing, range(episodes))
            return int(played.hours.sum()) + OPENING_HOURS * episodes

        found[f"compiled_engine_{threads}_threads"] = _rate(compiled)
    found[f"reference_loops_of_{LOOP}_additions"] = _rate(_loops)
    return found


def _loops() -> int:
    for _ in range(5000):
        total = 0
        for number in range(LOOP):
            total += number
    return 5000


def _rate(work: Callable[[], int]) -> dict[str, int]:
    wall, cpu = time.perf_counter(), time.process_time()
    count = work()
    return {
        "per_s": round(count / (time.perf_counter() - wall)),
        "per_cpu_s": round(count / (time.process_time() - cpu)),
    }


def main() -> None:
    """Print the report."""
    sys.stdout.write(json.dumps(measure(), indent=2) + "\n")


if __name__ == "__main__":
    main()
