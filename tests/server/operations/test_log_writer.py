"""Whoever logs never waits: not for a reader that is gone, nor for a disk that is full."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from server.operations import log_writer
from server.operations.log_writer import LineWriter
from tests.live import ROOT, free_port, wait_for_health

REQUESTS = 2_000
"""Far more lines than a pipe of 64 KiB takes."""

DROPPED = "inferencegym_log_lines_dropped_total"


def test_lines_keep_their_order_and_are_all_written() -> None:
    file = io.BytesIO()
    writer = LineWriter(file)
    for number in range(1_000):
        (writer.error if number % 100 == 0 else writer.info)(b"%d" % number)
    assert writer.flush()
    assert file.getvalue() == b"".join(b"%d\n" % number for number in range(1_000))
    assert writer.dropped == 0


def test_a_reader_that_is_stuck_costs_lines_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "MAX_WAITING_BYTES", 100_000)
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file, os.fdopen(read, "rb") as reader:
        writer = LineWriter(file)
        for _ in range(5_000):
            writer.error(b"x" * 99)
        assert not writer.flush(0.01)
        assert writer.dropped > 3_000
        kept = 5_000 - writer.dropped
        read_on = b""
        while len(read_on) < kept * 100:
            read_on += os.read(reader.fileno(), 65_536)
        assert writer.flush()
        writer.info(b"again")
        assert writer.flush()
        assert os.read(reader.fileno(), 100) == b"again\n"


def test_lines_for_a_full_disk_are_counted() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        writer = LineWriter(full)  # pyright: ignore[reportArgumentType]
        writer.info(b"lost")
        assert writer.flush()
        assert writer.dropped == 1


def test_a_file_that_was_closed_is_no_error() -> None:
    file = io.BytesIO()
    writer = LineWriter(file)
    file.close()
    writer.error(b"lost")
    assert writer.flush()
    assert writer.dropped == 1


@pytest.mark.parametrize("unread", ["a pipe", "a full disk"])
def test_the_server_answers_whatever_becomes_of_its_log(unread: str) -> None:
    port = free_port()
    environment = {**os.environ, "PORT": str(port), "INFERENCEGYM_LOG_LEVEL": "INFO"}
    with Path("/dev/full").open("wb", buffering=0) as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "server.app"],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE if unread == "a pipe" else full,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for_health(url, process)
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            long = "/" + "x" * 5_000  # 10 MB of lines: more than the pipe and the queue take
            for _ in range(REQUESTS):
                assert client.get(long).status_code == 404
            lines = client.get("/metrics").text.splitlines()
        assert any(float(line.split()[1]) > 0 for line in lines if line.startswith(DROPPED))
    finally:
        process.terminate()
        process.wait(30)
        if process.stderr:
            process.stderr.close()
