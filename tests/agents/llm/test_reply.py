"""Actions out of what language models write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.reply import ReplyError, parse_reply
from inferencegym.models.serving import QuantTier, ServeAction

FIELDS = ("kv_budget", "batch_size")
ALL = tuple(ServeAction.model_fields)
GOOD = '{"kv_budget": 0.5, "batch_size": 64}'
WANTED = ServeAction(kv_budget=0.5, batch_size=64)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nThis keeps the queue short.",
        f"I would raise the batch size. {GOOD} That should do.",
        f'<think>maybe {{"batch_size": 1}}? no.</think>\n{GOOD}',
        f'First {{"batch_size": 1}} came to mind, but: {GOOD}',
        '{"action": {"kv_budget": 0.5, "batch_size": 64}}',
        '{"name": "set_knobs", "arguments": {"kv_budget": 0.5, "batch_size": 64}}',
        '{"thought": "busy", "kv_budget": 0.5, "batch_size": 64}',
        '{"kv_budget": "0.5", "batch_size": "64"}',
        '{"kv_budget": 0.5, "batch_size": 64.0}',
        f"{{not json}} {{}} {GOOD} {{",
    ],
)
def test_understands(text: str) -> None:
    assert parse_reply(text, ServeAction, FIELDS).action == WANTED


def test_a_clean_reply_leaves_no_notes() -> None:
    assert parse_reply(GOOD, ServeAction, FIELDS).notes == ()


def test_says_what_it_overlooked() -> None:
    reply = parse_reply('{"batch_size": "64", "spec_length": 2, "mood": "good"}', ServeAction, FIELDS)
    assert reply.action == ServeAction(batch_size=64)
    assert set(reply.notes) == {
        "spec_length does not count",
        "mood does not count",
        "kv_budget missing: default taken",
        "batch_size: text read as 64",
    }


def test_names_of_an_enum_stay_text() -> None:
    reply = parse_reply('{"quant_tier": "int8", "prefill_disagg": "true"}', ServeAction, ALL)
    assert reply.action == ServeAction(quant_tier=QuantTier.INT8, prefill_disagg=True)


def test_null_means_missing() -> None:
    reply = parse_reply('{"batch_size": 8, "kv_budget": null}', ServeAction, FIELDS)
    assert reply.action == ServeAction(batch_size=8)
    assert reply.notes == ("kv_budget missing: default taken",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "JSON object"),
        ("I cannot help with that.", "batch_size"),
        ('{"answer": 42}', "JSON object"),
        ("[1, 2, 3]", "JSON object"),
        ('{"batch_size": 64', "JSON object"),
        ('{"batch_size": 0}', "batch_size"),
        ('{"batch_size": 10000000000000000000000}', "batch_size"),
        ('{"batch_size": "many"}', "batch_size"),
        ('{"batch_size": [64]}', "batch_size"),
        ('{"batch_size": {"value": 64}}', "batch_size"),
        ('{"kv_budget": NaN}', "kv_budget"),
        ('{"kv_budget": Infinity}', "kv_budget"),
        ('{"kv_budget": true}', "kv_budget"),
        ("<think>" + GOOD + "</think>", "JSON object"),
        ('{"batch_size":' * 5000, "JSON object"),
    ],
)
def test_refuses_and_names(text: str, named: str) -> None:
    with pytest.raises(ReplyError, match=named):
        parse_reply(text, ServeAction, FIELDS)


@given(st.text(max_size=300))
def test_any_text_gives_an_action_or_a_reply_error(text: str) -> None:
    for reply in (text, f'{{"batch_size": {text}}}', json.dumps({"batch_size": text})):
        try:
            action = parse_reply(reply, ServeAction, FIELDS).action
        except ReplyError:
            continue
        assert isinstance(action, ServeAction)
