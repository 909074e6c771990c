"""What a visitor of the page has computed is charged, by function."""

from __future__ import annotations

import secrets
import time
from typing import Any

import httpx

from tests.live import live_server
from tests.server.conftest import error_of
from tests.server.guard.test_page_files import functions

PLAYS = ("play", "act", "train")


def test_functions_that_play_cost_a_visitor_and_others_little():
    settings = {"INFERENCEGYM_LIMIT_LOOPBACK": "true", "INFERENCEGYM_COST_LIMIT": "4000/hour"}
    with live_server(**settings) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as page:
        found = {str(function["api_name"]): function for function in functions(page, "/market")}
        codes = [_call(page, found["play"]) for _ in range(3)]
        assert [code.status_code for code in codes] == [200, 200, 429]
        assert error_of(codes[-1])["code"] == "rate_limited"
        cheap = next(each for name, each in found.items() if not name.startswith(PLAYS))
        time.sleep(1.1)  # the second in which the budget is spent too fast
        assert _call(page, cheap).status_code == 200
        assert page.get("/health").status_code == 200


def _call(page: httpx.Client, function: dict[str, Any]) -> httpx.Response:
    data = [None for _ in function["inputs"]]
    body = {"data": data, "fn_index": function["id"], "session_hash": secrets.token_hex(6)}
    return page.post("/market/web/gradio_api/queue/join", json=body)
