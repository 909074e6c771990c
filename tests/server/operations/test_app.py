"""Starting: the command, the lazily made application, settings and what is wrong with them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import httpx
import pytest
from pydantic import ValidationError

import server.app
from server.operations.listening import why_not_listen
from server.operations.settings import Settings, told
from server.operations.settings import told as told_lines
from simulator.packs import on_offer as packs
from simulator.serving.traffic import on_offer as traffic_files
from tests.live import ROOT, free_port, live_server


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return _python("-c", code, environment=environment)


def run_module(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return _python("-m", *command, environment=environment)


def _python(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_the_module_costs_nothing() -> None:
    code = "import sys, server.app; print([m for m in ('openenv', 'gradio', 'numpy') if m in sys.modules])"
    assert run(code).stdout.strip() == "[]"


def test_the_application_is_made_when_it_is_asked_for_and_only_once() -> None:
    assert server.app.app is server.app.app
    with pytest.raises(AttributeError):
        _ = server.app.apple


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("INFERENCEGYM_MAX_SESSIONS", "0"),
        *[
            ("INFERENCEGYM_RATE_LIMIT", value)
            for value in ("often", "0/minute", "10/day", "", "5", "-1/hour", "1.5/hour", "5/2minute", "0")
        ],
        ("INFERENCEGYM_SESSION_IDLE_TIMEOUT_S", "inf"),
        ("INFERENCEGYM_SESSION_IDLE_TIMEOUT_S", "nan"),
        ("INFERENCEGYM_LOG_LEVEL", "LOUD"),
    ],
)
def test_a_wrong_setting_is_told_with_its_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    (line,) = told(caught.value)
    assert line.startswith(f"setting {name}: ")
    assert line.endswith(f"(given: {value!r})")


@pytest.mark.parametrize("command", [["server.app"], ["inferencegym.cli", "serve"]], ids=["module", "cli"])
def test_what_hinders_the_start_is_one_sentence(command: list[str]) -> None:
    def refusal(**environment: str) -> str:
        done = run_module(*command, **environment)
        assert done.returncode == 2
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        return line

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refusal(INFERENCEGYM_HOST="127.0.0.1", INFERENCEGYM_PORT=port)
    assert line.startswith("setting INFERENCEGYM_PORT")
    assert port in line
    line = refusal(INFERENCEGYM_HOST="192.0.2.1", PORT="0")
    assert line.startswith("setting INFERENCEGYM_HOST")
    assert "192.0.2.1" in line
    assert "given: '0'" in refusal(INFERENCEGYM_MAX_SESSIONS="0")


@pytest.mark.parametrize("host", ["no such host", "a" * 70, "::zz", "..", "192.0.2.1"])
def test_a_host_that_is_not_of_this_machine(host: str) -> None:
    assert (why_not_listen(host, 0) or "").startswith(f"setting INFERENCEGYM_HOST: cannot listen on {host!r}")


def test_a_good_address_is_free_again_after_it_was_tried() -> None:
    assert why_not_listen("127.0.0.1", 0) is None
    assert why_not_listen("localhost", 0) is None
    port = free_port()
    assert why_not_listen("127.0.0.1", port) is why_not_listen("127.0.0.1", port) is None


def test_a_variable_that_is_no_setting_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCEGYM_URL", "http://127.0.0.1:1")
    read_elsewhere = (packs.PACK_VARIABLE, packs.FOLDER_VARIABLE, traffic_files.FOLDER_VARIABLE)
    for name in ("INFERENCEGYM_PPO_CHECKPOINT", *read_elsewhere):
        monkeypatch.setenv(name, "x")
    Settings()
    monkeypatch.setenv("INFERENCEGYM_RATE_LIMITS", "5/minute")
    monkeypatch.setenv("INFERENCEGYM_XYZZY", "1")
    with pytest.raises(ValidationError) as caught:
        Settings()
    (line,) = told(caught.value)
    assert "INFERENCEGYM_RATE_LIMITS is no setting, did you mean INFERENCEGYM_RATE_LIMIT" in line
    assert "INFERENCEGYM_XYZZY is no setting" in line


def test_the_command_serves_and_stops() -> None:
    with live_server() as url:
        assert httpx.get(f"{url}/health", trust_env=False).json()["status"] == "healthy"
        assert httpx.post(f"{url}/reset", trust_env=False).status_code == 200


def test_uvicorn_finds_the_application() -> None:
    with live_server(("-m", "uvicorn", "server.app:app", "--port", "{port}")) as url:
        assert httpx.get(f"{url}/tasks", trust_env=False).status_code == 200


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "8001")
    monkeypatch.setenv("INFERENCEGYM_CORS_ORIGINS", "https://a.example, https://b.example")
    monkeypatch.setenv("INFERENCEGYM_RATE_LIMIT", "Off")
    monkeypatch.setenv("INFERENCEGYM_LOG_LEVEL", "warning")
    settings = Settings()
    assert settings.port == 8001
    assert settings.cors_origins == ["https://a.example", "https://b.example"]
    assert (settings.rate_limit, settings.log_level) == ("off", "WARNING")
    monkeypatch.setenv("INFERENCEGYM_PORT", "8002")
    assert Settings().port == 8002
    with pytest.raises(ValidationError):
        Settings(max_sessions=0)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("CORS_ORIGINS", "not-an-origin", "is not allowed"),
        ("CORS_ORIGINS", "https://a.example/path", "is not allowed"),
        ("CORS_ORIGINS", "https://a.example:port", "is not allowed"),
        ("CORS_ORIGINS", "https://user@a.example", "is not allowed"),
        ("CORS_ORIGINS", "*, https://a.example", "is not allowed"),
        ("FORWARDED_ALLOW_IPS", "zzz", "is not allowed"),
        ("FORWARDED_ALLOW_IPS", "10.0.0.1/8", "is not allowed"),
        ("FORWARDED_ALLOW_IPS", "*,10.0.0.1", "is not allowed"),
        ("HOST", "a b", "host name"),
        ("HOST", "http://localhost", "host name"),
        ("RATE_LIMIT", "many", "N/minute"),
        ("COST_LIMIT", "0/minute", "N/minute"),
        ("CLIENT_SHARE", "0", "greater than 0"),
        ("CLIENT_SHARE", "nan", "finite"),
        ("MAX_EPISODES", "7", "at least INFERENCEGYM_MAX_SESSIONS"),
        ("SOCKET_IDLE_TIMEOUT_S", "-1", "greater than or equal to 0"),
        ("PORT", "70000", "less than or equal to 65535"),
        ("LOG_LEVEL", "LOUD", "'DEBUG', 'INFO'"),
        ("WEB", "perhaps", "boolean"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_a_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(f"INFERENCEGYM_{name}", value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    lines = told_lines(caught.value)
    assert len(lines) == 1
    assert told in lines[0]
    if name != "MAX_EPISODES":
        assert f"INFERENCEGYM_{name}" in lines[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", ""),
        ("CORS_ORIGINS", "http://localhost:3000,https://[::1]:8443"),
        ("FORWARDED_ALLOW_IPS", "*"),
        ("FORWARDED_ALLOW_IPS", "127.0.0.1, 10.0.0.0/8,::1"),
        ("HOST", "::"),
    ],
)
def test_a_right_setting_starts(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"INFERENCEGYM_{name}", value)
    Settings()


def test_every_setting_says_what_it_does() -> None:
    assert all(field.description for field in Settings.model_fields.values())
