"""Places of connections are counted by address, and whoever only holds one loses it first."""

from __future__ import annotations

from typing import Any, cast

import pytest

from server.guard.connections import ClientFullError, Connections, ServerFullError
from server.operations.settings import Settings


class _Transport:
    aborted = False

    def abort(self) -> None:
        self.aborted = True


class _Connection:
    def __init__(self) -> None:
        self.transport: Any = _Transport()


def enter_many(ledger: Connections, number: int, address: str) -> list[_Connection]:
    connections = [_Connection() for _ in range(number)]
    for connection in connections:
        assert ledger.enter(connection, address) is None
    return connections


def ledger_of(**settings: Any) -> Connections:
    return Connections(Settings(**settings))


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7"])
def test_one_address_has_so_many_and_gets_them_back(address: str) -> None:
    ledger = ledger_of(max_connections_per_client=3)
    first, *_ = enter_many(ledger, 3, address)
    error = ledger.enter(_Connection(), address)
    assert isinstance(error, ClientFullError)
    assert error.status == 429
    assert ledger.enter(_Connection(), "192.0.2.8") is None
    ledger.leave(first)
    ledger.leave(first)
    assert ledger.enter(_Connection(), address) is None
    assert ledger.enter(_Connection(), address) is not None


def test_a_network_of_one_subscriber_is_one_client() -> None:
    ledger = ledger_of(max_connections_per_client=2)
    enter_many(ledger, 1, "2001:db8::1")
    enter_many(ledger, 1, "2001:db8::ffff:1")
    assert ledger.enter(_Connection(), "2001:db8::2") is not None
    assert ledger.enter(_Connection(), "2001:db8:0:1::2") is None


@pytest.mark.parametrize(
    ("address", "proxies"),
    [
        ("127.0.0.1", ""), ("::1", ""), ("127.3.4.5", ""), ("10.1.2.3", "10.0.0.0/8"), ("192.0.2.7", "*"),
        ("", ""), ("2001:db8::1", "2001:db8::1"), ("::ffff:10.1.2.3", "192.0.2.1,10.1.2.3"),
    ],
)  # fmt: skip
def test_this_machine_and_the_proxies_have_no_limit_of_their_own(address: str, proxies: str) -> None:
    enter_many(ledger_of(max_connections_per_client=1, forwarded_allow_ips=proxies), 10, address)


def test_no_limit_for_one_client() -> None:
    enter_many(ledger_of(max_connections_per_client=0), 1_000, "192.0.2.7")


def test_the_oldest_that_never_asked_makes_room() -> None:
    ledger = ledger_of(max_connections=3)
    first, second, third = enter_many(ledger, 3, "127.0.0.1")
    ledger.proven(first)
    assert ledger.enter(_Connection(), "127.0.0.1") is None
    assert [each.transport.aborted for each in (first, second, third)] == [False, True, False]
    ledger.leave(second)  # as its loss is told later
    assert len(ledger) == 3


def test_when_all_are_in_use_the_next_one_is_told() -> None:
    ledger = ledger_of(max_connections=3)
    for connection in enter_many(ledger, 3, "127.0.0.1"):
        ledger.proven(connection)
    error = ledger.enter(_Connection(), "127.0.0.1")
    assert isinstance(error, ServerFullError)
    assert error.status == 503


@pytest.mark.parametrize(("files", "limit"), [(None, 2000), (1024, 896), (200, 100), (10**6, 2000)])
def test_no_more_than_there_are_files(files: int | None, limit: int) -> None:
    assert Connections(Settings(), cast("int", files)).limit == limit
