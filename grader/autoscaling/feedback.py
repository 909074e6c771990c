"""What an autoscaling grade says in words: the verdict, where the score was lost, and what to try next."""

from __future__ import annotations

from collections.abc import Mapping

from env.autoscaling.score import WEIGHTS, Tally
from env.autoscaling.tasks import PassLine

__all__ = ["WELL_DONE", "feedback_sentence"]

WELL_DONE = 0.9
"""Score from which there is praise, not advice: controllers that do not know the future stay below."""

HEALTH_FIRST = 0.7
"""Healthy ratio below which the advice is about service, whatever it costs: the lowest line of the tasks."""

_ADVICE = {
    "survival": "bring capacity back at once when most requests fail; one replica more than needed is cheap",
    "health": "order replicas earlier: they take up to five minutes to start",
    "slo_closeness": "stay within the cpu band of 0.6 to 0.9, and let no queue build up",
    "efficiency": "give replicas back when traffic has fallen; pending and draining ones are paid for too",
    "discipline": "do not turn round within five minutes of a change",
}
_TOO_FEW = "run more replicas: fewer were paid for than the cheapest schedule that serves this traffic needs"


def feedback_sentence(
    line: PassLine | None, score: float, passed: bool | None, tally: Tally, breakdown: Mapping[str, float]
) -> str:
    """Verdict, and a hint for the part that costs most; for the service first where it was bad."""
    text = _verdict(line, score, passed, tally)
    if breakdown["completed"] < 1.0:
        text += f"Only {breakdown['completed']:.0%} of the episode was played; the score is scaled by it. "
    floor = HEALTH_FIRST if line is None else line.healthy_ratio
    starved = not tally.survived or tally.healthy_ratio < floor
    lost = {name: WEIGHTS[name] * (1.0 - breakdown[name]) for name in WEIGHTS}
    weakest = max(("survival", "health") if starved else WEIGHTS, key=lambda name: lost[name])
    if starved:
        advice = _TOO_FEW if tally.paid_s < tally.cheapest_s else _ADVICE[weakest]
        return text + f"Service comes first ({weakest} {breakdown[weakest]:.2f}): {advice}."
    if lost[weakest] < 0.005:
        return text + "Nothing of note is left to gain."
    if score >= WELL_DONE:
        return text + f"Well done; the little that is left is mostly {weakest} ({breakdown[weakest]:.2f})."
    return text + f"Most is lost on {weakest} ({breakdown[weakest]:.2f}): {_ADVICE[weakest]}."


def _verdict(line: PassLine | None, score: float, passed: bool | None, tally: Tally) -> str:
    ratio = tally.healthy_ratio
    down = "" if tally.survived else ", and the service was down for two minutes"
    if line is None:
        return f"Score {score:.3f} and healthy ratio {ratio:.2f} (no pass line){down}. "
    return (
        f"{'Passed' if passed else 'Not passed'}: score {score:.3f} (line {line.score:.2f}), healthy ratio "
        f"{ratio:.2f} (line {line.healthy_ratio:.2f}){down}. "
    )
