"""One real server for all tests of the client that go over a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live import live_server


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with live_server() as url:
        yield url
