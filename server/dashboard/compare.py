"""Compare: what the reference agents reach, from the committed results.

Nothing is played here. A part that an environment has no result for is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import gradio as gr

from agents.compare.compare import AgentSummary, Mean
from agents.compare.report import header_of, row_of, rows_of
from agents.compare.results import Curve, Front, Scores, curve_of, front_of, scores_of
from inferencegym.errors import InferenceGymError, UnknownNameError
from inferencegym.registry import EnvSpec, get_spec
from server.bound import BoundEnv
from server.dashboard.components import environment_field, id_and_name, scripts
from server.dashboard.connect.tab import CONNECT_HEAD, copy_block
from server.dashboard.message import message
from server.dashboard.wording import name_and_unit

__all__ = ["compare_tab", "results_of", "shown_tasks"]

_HEAD = CONNECT_HEAD + scripts("plotly.min.js", "charts.js", "compare.js")


def compare_tab(bound: BoundEnv, bounds: Sequence[BoundEnv]) -> None:
    """Builds the tab.

    Args:
        bound: environment shown first, if it has results.
        bounds: all environments.
    """
    specs = [each.spec for each in bounds if shown_tasks(each.spec)]
    if not specs:
        gr.Markdown("No results are committed for these environments.")
        return
    first = next((spec for spec in specs if spec.id == bound.spec.id), specs[0])
    tasks = shown_tasks(first)
    task_id = _first_task(tasks)
    with gr.Row():
        environment = environment_field(specs, first)
        # Its choices change with the environment; a server that restarted remembers the first ones only.
        task = gr.Dropdown(tasks, value=task_id, label="Task", min_width=180, allow_custom_value=True)
    shown = gr.HTML(
        value=results_of(first.id, task_id),
        html_template='<div class="ig-compare"></div>',
        js_on_load="inferenceGym.compare(element, props, watch);",
        head=_HEAD,
        apply_default_css=False,
    )
    environment.input(_choose, environment, [task, shown], concurrency_limit=None)
    task.input(results_of, [environment, task], shown, concurrency_limit=None)


def results_of(env_id: str, task_id: str) -> dict[str, Any]:
    """What the page shows of a task.

    Returns:
        ``html``, in which elements with ``data-figure`` stand for the charts, and ``figures``, what
        ``assets/compare.js`` draws there. For a name that does not exist the text says so.
    """
    try:
        spec = get_spec(env_id)
        if task_id not in dict(shown_tasks(spec)).values():
            raise UnknownNameError("task", task_id, [name for _, name in shown_tasks(spec)])
    except InferenceGymError as error:
        return {"html": message(error), "figures": {}}
    charts, table, figures = "", "", dict[str, Any]()
    scores = scores_of(spec.id)
    rows = rows_of(scores.comparison(), task_id) if scores else []
    if scores and rows:
        charts += _result_html(
            _figure_html("scores", "Scores of the agents", _scores_words(rows), len(rows))
            + '<p class="ig-meaning">Numbers, seeds and the command are with the score table below.</p>'
        )
        table = _table_html(scores, rows)
        figures["scores"] = _scores_figure(scores, rows)
    if curve := curve_of(spec.id, task_id):
        charts += _curve_html(curve)
        figures["curve"] = curve.model_dump(mode="json", include={"points", "lines"})
    if front := front_of(spec.id, task_id):
        charts += _front_html(front)
        figures["front"] = front.model_dump(
            mode="json", include={"cost", "gain", "line_name", "agents", "line"}
        )
    return {"html": charts + table, "figures": figures}


def _choose(env_id: str) -> tuple[Any, dict[str, Any]]:
    tasks = shown_tasks(get_spec(env_id))
    return gr.update(choices=tasks, value=_first_task(tasks)), results_of(env_id, _first_task(tasks))


def shown_tasks(spec: EnvSpec) -> list[tuple[str, str]]:
    """Label and id of the tasks that have a result."""
    scores = scores_of(spec.id)
    scored = {row.task for row in scores.rows} if scores else set[str]()
    return [
        id_and_name(task)
        for task in spec.part("tasks").values()
        if task.id in scored or curve_of(spec.id, task.id) or front_of(spec.id, task.id)
    ]


def _first_task(tasks: Sequence[tuple[str, str]]) -> str:
    """The last one listed, the hardest: there agents differ most."""
    return tasks[-1][1]


# --- scores ------------------------------------------------------------------------------------------------


def _table_html(scores: Scores, rows: list[AgentSummary]) -> str:
    comparison = scores.comparison()
    best = max(rows, key=lambda row: row.score.value).agent
    titles = "".join(f'<th scope="col">{escape(_title(name))}</th>' for name in header_of(comparison, rows))
    body = "".join(_row_html(row_of(comparison, rows, row), row.agent == best) for row in rows)
    meaning = (
        f"Means of {scores.episodes} episodes, seeds {escape(scores.seeds)}. {_plus_minus(scores.confidence)}"
    )
    if scores.baseline:
        meaning += f" Differences to <code>{escape(scores.baseline)}</code> are paired by seed."
    notes = "".join(
        f"<p>{escape(row.agent)}: {escape(note)} ({count} episodes)</p>"
        for row in rows
        for note, count in row.notes.items()
    )
    return _result_html(
        "<h3>Score table</h3>"
        '<div class="ig-scroll" tabindex="0" role="region" aria-label="Score table, scrolls sideways">'
        f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>{notes}"
        f"{_made_by(meaning, scores.command)}"
    )


def _row_html(cells: list[str], best: bool) -> str:
    first, *rest = (escape(cell) for cell in cells)
    mark = ' class="ig-best"' if best else ""
    return (
        f'<tr{mark}><th scope="row"><code>{first}</code></th>'
        + "".join(f"<td>{cell}</td>" for cell in rest)
        + "</tr>"
    )


def _title(name: str) -> str:
    """``mean wait h`` as "Mean wait (h)"."""
    label, unit = name_and_unit(name.replace(" ", "_"))
    return f"{label} ({unit})" if unit else label


def _scores_figure(scores: Scores, rows: list[AgentSummary]) -> dict[str, Any]:
    return {
        "agents": [row.agent for row in rows],
        "values": [row.score.value for row in rows],
        "half_widths": [row.score.half_width or 0.0 for row in rows],
        "baseline": scores.baseline,
    }


def _scores_words(rows: list[AgentSummary]) -> str:
    return "Scores from 0 to 1: " + "; ".join(f"{row.agent} {_say(row.score)}" for row in rows) + "."


# --- learning curve and frontier ---------------------------------------------------------------------------


def _curve_html(curve: Curve) -> str:
    (_, start), (steps, end) = curve.points[0], curve.points[-1]
    words = (
        f"Learning curve of PPO: score {_say(start)} untrained, {_say(end)} after {steps:,} steps. "
        "For comparison: " + "; ".join(f"{line.name} {_say(line.score)}" for line in curve.lines) + "."
    )
    meaning = (
        f"One training run (seed {curve.settings['seed']}), whose end is the agent <code>ppo</code>. Each "
        f"point: mean score of {curve.episodes} episodes, seeds {escape(curve.seeds)}, which training never "
        "sees; shaded: 95 % interval of that mean (Student's t), not the spread between runs."
    )
    chart = _figure_html("curve", "Learning curve of PPO", words)
    return _result_html(chart + _made_by(meaning, curve.command))


def _front_html(front: Front) -> str:
    words = (
        f"{front.gain} against {front.cost}. Agents: {_points_words(front.agents)}. "
        f"Line, {front.line_name}: {_points_words(front.line)}."
    )
    meaning = (
        f"Means of {front.episodes} episodes, seeds {escape(front.seeds)}. {_plus_minus(front.confidence)}"
    )
    chart = _figure_html(
        "front", f"{_name_only(front.gain).capitalize()} against {_name_only(front.cost)}", words, 12
    )
    return _result_html(chart + _made_by(meaning, front.command))


def _points_words(points: Sequence[Any]) -> str:
    return "; ".join(f"{p.name} {p.gain.value:.3f} at {p.cost.value:.2f}" for p in points)


def _name_only(quantity: str) -> str:
    return quantity.partition(" (")[0]


# --- pieces ------------------------------------------------------------------------------------------------


def _figure_html(name: str, title: str, words: str, rows: int = 8) -> str:
    """``rows``: lines of text that the chart needs room for."""
    return (
        f'<figure class="ig-chart"><figcaption class="ig-chart-head"><strong>{escape(title)}</strong>'
        f'<span class="ig-keys" data-keys="{name}"></span></figcaption>'
        f'<div class="ig-plot" data-figure="{name}" style="height:{90 + 26 * rows}px" role="img" '
        f'aria-label="{escape(words)}"></div></figure>'
    )


def _result_html(content: str) -> str:
    return f'<section class="ig-result">{content}</section>'


def _made_by(meaning: str, command: str) -> str:
    return f'<p class="ig-meaning">{meaning}</p>{copy_block(command, "bash", "the command that makes this")}'


def _plus_minus(confidence: float) -> str:
    return f"± is half of the mean's {confidence:.0%} interval (Student's t over episodes).".replace(
        "%", " %"
    )


def _say(mean: Mean) -> str:
    half = "" if mean.half_width is None else f" ± {mean.half_width:.3f}"
    return f"{mean.value:.3f}{half}"
