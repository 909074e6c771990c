"""Do the agents rank alike on the reference simulator? ``python -m agents.studies.reference_ranking``

Plays the same seeds on the fast engine and on :class:`simulator.reference.engine.ReferenceEngine`, graded
alike: the
anchors of the grades stay those of the fast engine. Policies were tuned on the fast engine and are not tuned
again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.command_line import plain_errors
from agents.compare.compare import AgentSummary, Mean, make_plan, parse_seeds, run_plan
from env.serving.episode import InferenceEnv
from inferencegym.models.serving import RewardConfig
from inferencegym.options import OptionParser
from simulator.packs.trace_sim import shared_simulator
from simulator.reference.engine import ReferenceEngine

__all__ = ["AGENTS", "main", "make_reference_env", "rows"]

AGENTS = ("random", "baseline", "static", "reactive", "adaptive", "evolved", "ppo")
"""The look-ahead agent is left out: it keeps copies of the fast engine in step with what it observes."""


def make_reference_env(
    task_id: str, seed: int = 42, config: RewardConfig | Mapping[str, Any] | None = None
) -> InferenceEnv:
    """A serving episode on the reference engine."""
    return InferenceEnv(shared_simulator(), task_id, seed, config, engine=ReferenceEngine)


def rows(
    tasks: Sequence[str] | None = None, agents: Sequence[str] = AGENTS, seeds: Sequence[int] = range(100, 120)
) -> list[tuple[AgentSummary, AgentSummary]]:
    """(fast, reference) of every agent on every task."""
    plan = make_plan("serving", agents, tasks, seeds)
    entry = f"{__name__ if __name__ != '__main__' else 'agents.studies.reference_ranking'}:make_reference_env"
    truer = replace(plan, spec=replace(plan.spec, make_env=entry))
    # In this process: the other environment goes by the same id, which workers would look up.
    pairs = (run_plan(one, workers=1).summaries for one in (plan, truer))
    return list(zip(*pairs, strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: prints a Markdown table; returns 0."""
    parser = OptionParser(prog="python -m agents.studies.reference_ranking", description=__doc__)
    parser.add_argument("--seeds", default="100-119", help="a range, a list, or a count")
    parser.add_argument("--tasks", nargs="*", default=None)
    parser.add_argument("--agents", nargs="*", default=list(AGENTS))
    args = parser.parse_args(argv)
    lines = [
        "| task | agent | score, fast | score, reference | − baseline, fast | − baseline, reference |",
        "|---|---|--:|--:|--:|--:|",
    ]
    with plain_errors(parser):
        found = rows(args.tasks, args.agents, parse_seeds(args.seeds))
    for fast, truer in found:
        cells = [_shown(fast.score), _shown(truer.score), _shown(fast.difference), _shown(truer.difference)]
        lines.append(f"| {fast.task} | `{fast.agent}` | {' | '.join(cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _shown(mean: Mean | None) -> str:
    if mean is None:
        return ""
    interval = "" if mean.half_width is None else f" ± {mean.half_width:.3f}"
    return f"{mean.value:.3f}{interval}"


if __name__ == "__main__":
    sys.exit(main())
