"""Watch: one agent or two play an episode on the same traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr

from agents.registry import agent_names, get_agent, rule_name
from inferencegym.errors import InferenceGymError
from inferencegym.registry import EnvSpec, get_spec
from server.bound import DEFAULT_SEED, BoundEnv
from server.dashboard.components import environment_field, id_and_name
from server.dashboard.door import costs_steps
from server.dashboard.message import NO_MESSAGE, message
from server.dashboard.player import player
from server.dashboard.typed import seed_field, typed_seed
from server.dashboard.watch.agents import agents_shown, check_agent
from server.dashboard.watch.recording import record

__all__ = ["watch_tab"]

NOBODY = "nobody"
BETTER_FIRST = ("ppo", "evolved", "forecast", "reactive", "heuristic", "baseline")
"""Agents worth seeing; the first that an environment has and this server can play is shown at once."""

RUNS_AT_ONCE = 2
"""Visitors whose agents play at the same time; the next one waits. Agents compute in this process."""


def watch_tab(bound: BoundEnv, bounds: Sequence[BoundEnv], paid: bool) -> tuple[Any, list[Any], list[Any]]:
    """Builds the tab.

    Args:
        bound: environment shown first.
        bounds: all environments.
        paid: whether visitors may let agents play whose steps are paid for.

    Returns:
        The function that plays, its inputs and its outputs, for who wants a run to be there at once.
    """
    spec = bound.spec
    with gr.Row():
        environment = environment_field([each.spec for each in bounds], spec, min_width=190)
        task = gr.Dropdown(
            _tasks(spec),
            value=_first_shown(spec),
            label="Task",
            scale=2,
            min_width=240,
            allow_custom_value=True,
        )
        seed = seed_field(DEFAULT_SEED)
        first = gr.Dropdown(
            agents_shown(spec.id, paid),
            value=_best(spec),
            label="Agent",
            min_width=150,
            allow_custom_value=True,
        )
        second = gr.Dropdown(
            [NOBODY, *agents_shown(spec.id, paid)],
            value=_plain(spec),
            label="Against",
            min_width=150,
            allow_custom_value=True,
        )
        start = gr.Button("Watch", variant="primary", scale=0, min_width=120, elem_classes="ig-go")
    about = gr.Markdown(_about(spec.id, _first_shown(spec)), elem_classes="ig-about", padding=True)
    said = gr.HTML(NO_MESSAGE, elem_classes="ig-said")
    shown = player()

    environment.input(partial(_choices, paid), environment, [task, first, second, about])
    task.change(_about, [environment, task], about)
    inputs: list[Any] = [environment, task, seed, first, second]

    @costs_steps(1500)
    def play(*values: Any) -> Iterator[tuple[Any, Any]]:
        yield from _play(paid, *values)

    start.click(play, inputs, [shown, said], concurrency_limit=RUNS_AT_ONCE, concurrency_id="watch")
    return play, inputs, [shown, said]


def _play(
    paid: bool, env_id: str, task_id: str, seed: Any, first: str, second: str
) -> Iterator[tuple[Any, Any]]:
    """Play and show; says in a sentence what cannot be played."""
    try:
        spec = get_spec(env_id)
        agents = [first] if second in (NOBODY, "", None) else [first, second]
        for agent in agents:
            check_agent(agent, paid)
        for scene in record(spec, task_id, typed_seed(seed), agents):
            yield scene.to_json(), NO_MESSAGE
    except InferenceGymError as error:
        yield gr.update(), message(error)


def _choices(paid: bool, env_id: str) -> tuple[Any, ...]:
    spec = get_spec(env_id)
    names = agents_shown(spec.id, paid)
    task = _first_shown(spec)
    return (
        gr.update(choices=_tasks(spec), value=task),
        gr.update(choices=names, value=_best(spec)),
        gr.update(choices=[NOBODY, *names], value=_plain(spec)),
        _about(env_id, task),
    )


def _tasks(spec: EnvSpec) -> list[tuple[str, str]]:
    return [id_and_name(task) for task in spec.part("tasks").values()]


def _first_shown(spec: EnvSpec) -> str:
    """A task in which something happens: of several, the second."""
    names = list(spec.part("tasks"))
    return names[min(1, len(names) - 1)]


def _best(spec: EnvSpec) -> str:
    """What a visitor sees first must play: the trained agent, say, needs packages that a server may lack."""
    return next((name for name in BETTER_FIRST if _plays(spec, name)), rule_name(spec.id))


def _plays(spec: EnvSpec, agent: str) -> bool:
    try:
        get_agent(spec.id, agent, _first_shown(spec))
    except InferenceGymError:
        return False
    return True


def _plain(spec: EnvSpec) -> str:
    return "baseline" if "baseline" in agent_names(spec.id) else NOBODY


def _about(env_id: str, task_id: str) -> str:
    spec = get_spec(env_id)
    task = spec.part("tasks").get(task_id)
    return f"{spec.description} **{task.name}** ({task.difficulty}): {task.description}" if task else ""
