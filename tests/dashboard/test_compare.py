"""Compare shows the committed results, and a sentence for what does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from agents.compare.report import row_of, rows_of
from agents.compare.results import Curve, Front, curve_of, front_of, scores_of
from inferencegym.registry import EnvSpec, all_specs, register, unregister
from server.dashboard.compare import results_of, shown_tasks
from tests.server import toy_env

SHOWN = [(spec, task) for spec in all_specs() for _, task in shown_tasks(spec)]


@pytest.fixture
def toy() -> Iterator[EnvSpec]:
    yield register(toy_env.SPEC)
    unregister(toy_env.SPEC.id)


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr.*?</tr>", html)
    return [
        [unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", r)] for r in rows
    ]


def test_the_environments_have_their_tables() -> None:
    assert {spec.name for spec, _ in SHOWN} >= {"serving", "autoscaling", "market", "routing"}


@pytest.mark.parametrize(("spec", "task"), SHOWN, ids=lambda one: getattr(one, "name", one))
def test_the_table_holds_the_committed_numbers(spec: EnvSpec, task: str) -> None:
    scores = scores_of(spec.id)
    assert scores
    comparison = scores.comparison()
    rows = rows_of(comparison, task)
    shown = results_of(spec.id, task)
    header, *body = cells(shown["html"])
    assert header[:3] == ["Agent", "Score", "− baseline"]
    assert body == [row_of(comparison, rows, row) for row in rows]
    assert {len(row) for row in body} == {len(header)}
    assert scores.command in unescape(shown["html"])
    assert f"seeds {scores.seeds}" in shown["html"]
    assert shown["figures"]["scores"]["values"] == [row.score.value for row in rows]


@pytest.mark.parametrize(("spec", "task"), SHOWN, ids=lambda one: getattr(one, "name", one))
def test_every_chart_has_data_words_and_its_command(spec: EnvSpec, task: str) -> None:
    shown = results_of(spec.id, task)
    charts = dict(re.findall(r'data-figure="(\w+)".*?aria-label="(.*?)"', shown["html"]))
    assert list(charts) == list(shown["figures"])
    assert all(len(words) > 40 and re.search(r"\d\.\d\d", words) for words in charts.values())
    expected: dict[str, Curve | Front | None] = {
        "curve": curve_of(spec.id, task),
        "front": front_of(spec.id, task),
    }
    for name, result in expected.items():
        assert (name in charts) == (result is not None)
        assert result is None or result.command in unescape(shown["html"])


def test_units_stand_in_the_header() -> None:
    assert "Mean wait (h)" in cells(results_of("market", "surge")["html"])[0]
    assert "CO₂ (g)" in cells(results_of("routing", "stream_2")["html"])[0]
    assert "SLO violations" in cells(results_of("autoscaling", "balanced")["html"])[0]


@pytest.mark.parametrize(("env", "task"), [("serving", "stream_2"), ("no_such", "task1"), ("serving", None)])
def test_what_does_not_exist_is_said_in_a_sentence(env: str, task: str) -> None:
    shown = results_of(env, task)
    assert 'role="alert"' in shown["html"]
    assert shown["figures"] == {}


def test_an_environment_without_results_is_not_offered(toy: EnvSpec) -> None:
    assert shown_tasks(toy) == []
