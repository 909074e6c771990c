"""The in-process benchmark measures any environment; nothing here looks at how fast it was."""

from __future__ import annotations

import json

from inferencegym.models.serving import ServeAction
from server.bench.process import measure, random_actions
from tests.server.toy_env import SPEC, Push


def test_random_actions_are_valid_varied_and_always_the_same() -> None:
    for model in (ServeAction, Push):
        schema = model.model_json_schema()
        actions = random_actions(schema, 64)
        assert actions == random_actions(schema, 64)
        assert len({model.model_validate(action).model_dump_json() for action in actions}) > 32


def test_every_task_is_measured_beside_the_yardsticks() -> None:
    report = json.loads(json.dumps(measure(SPEC, rounds=2, episodes=1), allow_nan=False))
    assert list(report) == ["yardsticks", "calm", "windy"]
    figures = [
        report["yardsticks"],
        *(report[t][p] for t in ("calm", "windy") for p in ("random", "baseline")),
    ]
    for group in figures:
        for figure in group.values():
            assert set(figure) == {"mean", "sd"}
            assert figure["mean"] >= 0.0
