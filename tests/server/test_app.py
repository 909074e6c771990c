"""Starting: the command, the lazily made application, settings and what is wrong with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

import server.app
from server.settings import Settings
from tests.live import live_server

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
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
        ("INFERENCEGYM_RATE_LIMIT", "often"),
        ("INFERENCEGYM_LOG_LEVEL", "LOUD"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_its_name(name: str, value: str) -> None:
    done = run("from server.app import main; main()", **{name: value})
    assert done.returncode == 2
    assert "setting" in done.stderr
    assert value in done.stderr
    assert "Traceback" not in done.stderr


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


def test_every_setting_says_what_it_does() -> None:
    assert all(field.description for field in Settings.model_fields.values())
