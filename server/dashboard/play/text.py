"""What the Play tab says about an episode, as HTML: observation, consequence, grade."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from openenv.core.env_server.types import Observation
from pydantic import BaseModel

from env.protocols import TaskInfo
from inferencegym.registry import EnvSpec
from server.dashboard.play.episode import Graded, Played
from server.dashboard.play.form import option_label
from server.dashboard.scene import Chart, Outcome, Scene
from server.dashboard.views.view import view_of
from server.dashboard.wording import in_words, name_and_unit, number, shares, signed, titled

__all__ = ["consequence", "grade_text", "observation_text", "task_text"]

_ELSEWHERE = frozenset({"task_id", "task_title", "last_reward", "reward_breakdown"})
"""Fields of observations that the tab shows in its own words: the task, and the reward with its terms."""

_LONG_TEXT = 24
"""Characters of a text that gets two columns."""

LEAST_GAP = 0.0005
"""Scores are shown with three digits; nearer ones are the same."""


def task_text(spec: EnvSpec, task: TaskInfo) -> str:
    """What is asked, before the start."""
    return (
        f'<p class="ig-play-task">{escape(spec.description)} <strong>{escape(task.name)}</strong> '
        f"({task.difficulty}, {_counted(task.episode_length, 'step')}): {escape(task.description)}</p>"
    )


def observation_text(played: Played) -> str:
    """Every observed field with its unit, how it changed, and what it means."""
    now, before = played.observation, played.before
    since = "" if before is None else f"Change over {_last(len(played.last))}"
    rows = "".join(_row(name, now, before) for name in _fields(now))
    return (
        f'<h3 class="ig-play-head">What you observe</h3>'
        '<div class="ig-play-scroll" tabindex="0" role="region" aria-label="Observation">'
        '<table class="ig-play-table"><thead><tr><th scope="col">Observed</th><th scope="col">Now</th>'
        f'<th scope="col">{since or "Change"}</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def consequence(played: Played, scene: Scene) -> str:
    """What the last press of a button brought."""
    at = f"Step {len(played.steps)} of {played.task.episode_length}"
    if not played.last:
        return _section(
            f"{at}: set the knobs and press <em>Next step</em>",
            "<p>A step is one unit of the charts' horizontal axis: "
            f"{escape(view_of(played.spec).step_title)}.</p>",
        )
    gained = sum(step.reward for step in played.last)
    total = sum(step.reward for step in played.steps)
    reward = (
        f"Reward of {_last(len(played.last))}: <strong>{signed(gained)}</strong>. So far: {signed(total, 2)}."
    )
    text = [
        f"<p>{reward}</p>",
        _terms(played),
        _in_force(played),
        *(f"<p>{line}</p>" for line in (*_events(played), *_masked(played))),
        _objectives(scene, len(played.last)),
    ]
    return _section(f"{at}{': the episode is over' if played.done else ''}", "".join(text))


def grade_text(graded: Graded) -> str:
    """Both grades, and who won by how much."""
    after = (
        "The episode is finished"
        if graded.finished
        else f"Grade so far, after {graded.steps} of {_counted(graded.length, 'step')}"
    )
    if graded.finished and graded.steps < graded.length:
        after = f"The episode ended early, after {graded.steps} of {_counted(graded.length, 'step')}"
    cards = [_card(graded.yours)]
    if graded.rival is not None:
        cards.append(_card(graded.rival))
    verdict = _verdict(graded.yours, graded.rival, finished=graded.finished) or escape(graded.problem)
    return (
        '<section class="ig-play-grade" role="status" aria-label="Grade">'
        f'<h3 class="ig-play-head">{after}</h3><p class="ig-verdict">{verdict}</p>'
        f'<div class="ig-outcomes">{"".join(cards)}</div></section>'
    )


# Observation


def _fields(observation: BaseModel) -> list[str]:
    """Fields to show: not what stands elsewhere on the tab, and nothing empty."""
    elsewhere = {*Observation.model_fields, *_ELSEWHERE}
    return [
        name
        for name in type(observation).model_fields
        if name not in elsewhere and getattr(observation, name) != {}
    ]


def _row(name: str, now: BaseModel, before: BaseModel | None) -> str:
    field = type(now).model_fields[name]
    label, unit = name_and_unit(name)
    share = shares(field)
    value = getattr(now, name)
    text = escape(in_words(value, unit, share=share))
    meaning = f"<small>{escape(field.description)}</small>" if field.description else ""
    head = f'<tr><th scope="row">{escape(label)}{meaning}</th>'
    if isinstance(value, str) and len(value) > _LONG_TEXT:
        return f'{head}<td colspan="2" class="ig-long">{text}</td></tr>'
    changed = "" if before is None else _change(getattr(before, name), value, unit, share=share)
    return f"{head}<td>{text}</td><td>{changed}</td></tr>"


def _change(before: Any, now: Any, unit: str, *, share: bool) -> str:
    if before == now:
        return '<span class="ig-same">same</span>'
    if _is_number(before) and _is_number(now):
        difference = now - before
        sign, arrow = ("+", "▲") if difference > 0 else ("−", "▼")
        return f"{arrow} {sign}{escape(in_words(abs(difference), unit, share=share))}"
    if isinstance(before, BaseModel) and isinstance(now, BaseModel):
        before = {name: value for name, value in before if getattr(now, name, None) != value}
    if isinstance(before, str) and len(before) > _LONG_TEXT:
        return "changed"
    return f"was {escape(in_words(before, unit, share=share))}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# Consequence


def _section(head: str, body: str) -> str:
    return (
        f'<section class="ig-play-said" role="status" aria-label="Last step">'
        f'<h3 class="ig-play-head">{head}</h3>{body}</section>'
    )


def _terms(played: Played) -> str:
    sums: Counter[str] = Counter()
    for step in played.last:
        sums.update(step.info["reward_terms"])
    widest = max((abs(value) for value in sums.values()), default=0.0) or 1.0
    items = "".join(
        f"<li><span>{escape(titled(name))}</span><b>{signed(value)}</b>"
        f'<i class="ig-bar" data-sign="{_sign(value)}" style="--ig-width:{abs(value) / widest:.3f}"></i></li>'
        for name, value in sums.items()
    )
    return f'<ul class="ig-play-terms" aria-label="Terms of the reward">{items}</ul>'


def _sign(value: float) -> str:
    return "less" if value < 0 else "more"


def _in_force(played: Played) -> str:
    action: Mapping[str, Any] | None = played.last[-1].info.get("action")
    taken = {
        name: value
        for name, value in (action or {}).items()
        if value is not None and name in played.task.active_actions
    }
    if not taken:
        return ""
    parts = ", ".join(f"{titled(name)} {option_label(value)}" for name, value in taken.items())
    return f"<p>In force: {escape(parts)}.</p>"


def _events(played: Played) -> Iterable[str]:
    """What the charts shade, and what the metrics call true."""
    span = view_of(played.spec).span
    seen: Counter[str] = Counter()
    for step in played.last:
        flags = {titled(name) for name, value in step.info["metrics"].items() if value is True}
        seen.update(flags | {titled(span(step.info))} - {""})
    if seen:
        told = (f"{name}{_of(count, len(played.last))}" for name, count in sorted(seen.items()))
        yield escape(f"What happened: {', '.join(told)}.")


def _masked(played: Played) -> Iterable[str]:
    named: Counter[str] = Counter()
    for step in played.last:
        named.update(step.info["masked_actions"])
    closed = [titled(name) for name in named if name not in played.task.active_actions]
    if closed:
        yield f"The task keeps these fixed: {escape(', '.join(closed))}."
    for name, count in named.items():
        if name in played.task.active_actions:
            yield f"Without effect: {escape(titled(name))}{_of(count, len(played.last))}."


def _of(count: int, steps: int) -> str:
    return f" in {count} of {steps} steps" if steps > 1 else ""


def _objectives(scene: Scene, steps: int) -> str:
    lines = [line for chart in scene.charts for line in _against_limits(chart, steps)]
    return f'<ul class="ig-play-limits" aria-label="Objectives">{"".join(lines)}</ul>' if lines else ""


def _against_limits(chart: Chart, steps: int) -> Iterable[str]:
    for line in chart.lines:
        now = line.values[-1] if line.values else None
        if now is None:
            continue
        which = line.name.rpartition(", ")[2] if len(chart.lines) > 1 else ""
        for limit in chart.limits:
            beyond = [value for value in line.values[-steps:] if value is not None and value > limit.value]
            past = "past" if now > limit.value else "within"
            often = f" (past in {len(beyond)} of {steps} steps)" if steps > 1 and beyond else ""
            yield (
                f'<li data-past="{past}">{escape(f"{chart.title} {which}".strip())} '
                f"{number(now)} {escape(chart.unit)}: <strong>{past}</strong> {escape(limit.label)}, "
                f"{number(limit.value)} {escape(chart.unit)}{often}</li>"
            )


def _last(count: int) -> str:
    return "the last step" if count == 1 else f"the last {count} steps"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# Grade


def _card(outcome: Outcome) -> str:
    parts = "".join(
        f"<dt>{escape(titled(name))}</dt><dd>{value:.3f}</dd>" for name, value in outcome.parts.items()
    )
    note = f'<p class="ig-note">{escape(outcome.note)}</p>' if outcome.note else ""
    return (
        f'<div class="ig-outcome ig-of-side-{outcome.side}">'
        f'<div class="ig-outcome-name">{escape(outcome.name)}</div>'
        f'<div class="ig-score">{outcome.score:.3f}</div><dl class="ig-parts">{parts}</dl>'
        f'<p class="ig-sentence">{escape(outcome.sentence)}</p>{note}</div>'
    )


def _verdict(yours: Outcome, rival: Outcome | None, *, finished: bool) -> str:
    if rival is None:
        return ""
    gap = yours.score - rival.score
    whom = f"the agent “{escape(rival.name)}” on the same task and seed"
    if abs(gap) < LEAST_GAP:
        return f"You and {whom} score the same."
    won = ("won against" if gap > 0 else "lost to") if finished else ("lead" if gap > 0 else "are behind")
    return f"You {won} {whom} by {abs(gap):.3f}."
