"""Requests made up from the OpenAPI document: none gets a 5xx, every reply is as documented."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    response_schema_conformance,
    status_code_conformance,
)

from tests.server.conftest import make_app

SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", make_app())
TOY_SCHEMA = schemathesis.openapi.from_asgi("/toy/openapi.json", make_app())
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]

bounded = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@SCHEMA.parametrize()
@bounded
def test_serving(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS)


@TOY_SCHEMA.parametrize()
@bounded
def test_toy(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS)
