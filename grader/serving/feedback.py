"""One sentence that tells a player where a score came from and what to try next."""

from __future__ import annotations

from collections.abc import Mapping

from grader.serving.scoring import WEIGHTS

__all__ = ["feedback_sentence"]

_ADVICE = {
    "throughput": "raise batch_size until KV memory binds; more sequences share each weight read",
    "ttft": "requests wait before their prefill: admit more (batch_size), leave the KV pool room in bursts",
    "memory": "reserve less memory: lower kv_budget, batch_size or spec_length until its peak is below 90 %",
    "slo_compliance": "serve the burst and its backlog faster, as with prefill_disagg while it lasts",
    "cost": "give the second GPU back when the queue is empty; idle capacity raises the cost per token",
    "stability": "change batch_size and kv_budget less from step to step",
}


def feedback_sentence(
    task_id: str, score: float, breakdown: Mapping[str, float], baseline_score: float | None
) -> str:
    """Score against the baseline, the component that costs most, and a hint for it.

    Without a baseline score the episode was played on other traffic than that of the task.
    """
    weights = WEIGHTS[task_id]
    weakest = max(weights, key=lambda name: weights[name] * (1.0 - breakdown[name]))
    lost = weights[weakest] * (1.0 - breakdown[weakest])
    text = f"Score {score:.3f}, {_standing(score, baseline_score)}. "
    if breakdown["completed"] < 1.0:
        text += f"Only {breakdown['completed']:.0%} of the episode was played; the score is scaled by it. "
    if lost < 0.005:
        return text + "Nothing of note is left to gain."
    return text + f"Most is lost on {weakest} ({breakdown[weakest]:.2f}): {_ADVICE[weakest]}."


def _standing(score: float, baseline_score: float | None) -> str:
    if baseline_score is None:
        return "to be compared with scores on the same recording only"
    standing = "above" if score > baseline_score + 0.005 else "near"
    standing = "below" if score < baseline_score - 0.005 else standing
    return f"{standing} the fixed baseline ({baseline_score:.3f})"
