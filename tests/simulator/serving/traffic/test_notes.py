"""Recordings that can be played and are perhaps not what they seem: a note says so."""

from __future__ import annotations

import json
from typing import Any

from env.serving.episode import make_env

MINUTE = 60


def notes(rows: list[dict[str, Any]]) -> list[str]:
    text = "\n".join(json.dumps(row) for row in rows)
    env = make_env("task1", 0, {"traffic": {"text": text}})
    env.reset()
    return env.step({})[3]["settings"]["traffic"].get("notes", [])


def test_fractions_under_a_name_in_milliseconds_are_noted():
    rows = [{"timestamp": second + 0.25, "input_length": 300, "output_length": 40} for second in range(300)]
    fraction, short = notes(rows)
    assert "300 times of column timestamp have fractions" in fraction
    assert "timestamp_s" in fraction
    assert "ends after 0.299 s of the 201 s" in short


def test_a_recording_much_shorter_than_an_episode_is_noted():
    rows = [{"timestamp_s": second, "prompt_tokens": 300, "output_tokens": 40} for second in range(MINUTE)]
    (short,) = notes(rows)
    assert "ends after 59 s of the 201 s" in short


def test_a_recording_as_it_should_be_has_no_note():
    rows = [{"timestamp": 1000 * second, "input_length": 300, "output_length": 40} for second in range(300)]
    assert notes(rows) == []
