"""Settings are judged at the start: each wrong one by a line with its name and what was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from server.operations.setting_checks import environment_problems
from server.operations.settings import Settings, told
from tests.server.operations.test_app import run_module

LONG = "a" * 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            ("CORS_ORIGINS", value)
            for value in (
                "not-an-origin", "*, https://a.example", "https://A.example", "https://a.example/", "null",
                "https://a.example/path", "ftp://a.example", "https://", "https://a.example:99999",
                "https://a b", "https://user@a.example",
            )
        ],
        *[
            ("FORWARDED_ALLOW_IPS", value)
            for value in ("zzz", "localhost", "10.0.0.1/8", "*,10.0.0.1", "1.2.3", ",")
        ],
        *[("HOST", value) for value in ("", "a b", "http://a", "x" * 300, "a\u00e4")],
        ("MAX_BODY_BYTES", "1e30"),
        ("GRADER_MAX_BODY_BYTES", str(2**40)),
        ("KEEP_ALIVE_S", "0"),
        ("SHUTDOWN_GRACE_S", "-1"),
        ("HEADER_MAX_BYTES", "10"),
        ("HEADER_MAX_COUNT", "0"),
        *[("HEADER_TIMEOUT_S", value) for value in ("0", "nan", "inf", "-1", "soon")],
        *[("BODY_TIMEOUT_S", value) for value in ("0", "nan", "inf")],
        ("MAX_CONNECTIONS", "0"),
        ("MAX_CONNECTIONS_PER_CLIENT", "-1"),
        ("WEB_LLM", "perhaps"),
        ("METRICS", "2"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"INFERENCEGYM_{name}", value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    (line,) = told(caught.value)
    assert line.startswith(f"setting INFERENCEGYM_{name}: ")
    assert "(given: " in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CORS_ORIGINS", "https://a.example, http://127.0.0.1:3000, http://[::1]:8080"),
        ("CORS_ORIGINS", ""),
        ("FORWARDED_ALLOW_IPS", "10.0.0.0/8, ::1"),
        ("FORWARDED_ALLOW_IPS", ""),
        ("HOST", "::"),
        ("HOST", "fe80::1%eth0"),
        ("HOST", "my_service.lab"),
        ("TOKEN", LONG),
    ],
)
def test_a_good_value_passes(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"INFERENCEGYM_{name}", value)
    Settings()


@pytest.mark.parametrize("token", ["", "short", f"{LONG} {LONG}", f"{LONG}\n", f"{LONG}\u00e9", "x" * 600])
def test_a_poor_token_is_refused_and_not_shown(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCEGYM_TOKEN", token)
    with pytest.raises(ValidationError) as caught:
        Settings()
    (line,) = told(caught.value)
    assert line.startswith("setting INFERENCEGYM_TOKEN: must be 16 to 512 printable")
    assert not token or (token not in line and token not in str(caught.value))


def test_a_token_is_not_shown_with_the_settings() -> None:
    assert LONG not in repr(Settings(token=LONG))  # pyright: ignore[reportArgumentType]


def test_variables_that_parts_read_by_themselves(tmp_path: Path) -> None:
    def problems(*, web_llm: bool = False, **environ: str) -> list[str]:
        return environment_problems(web_llm=web_llm, environ=environ)

    assert problems() == []
    assert problems(INFERENCEGYM_URL="http://lab:7860", INFERENCEGYM_PPO_CHECKPOINT=str(tmp_path)) == []
    (line,) = problems(INFERENCEGYM_URL="zzz")
    assert line.startswith("setting INFERENCEGYM_URL: 'zzz' is not allowed; allowed: ")
    (line,) = problems(INFERENCEGYM_PPO_CHECKPOINT=str(tmp_path / "gone"))
    assert line.startswith("setting INFERENCEGYM_PPO_CHECKPOINT: ")
    (line,) = problems(web_llm=True)
    assert line.startswith("setting INFERENCEGYM_WEB_LLM: ")
    assert problems(web_llm=True, HF_TOKEN="hf_x") == []
    (line,) = problems(web_llm=True, HF_TOKEN="hf_x", API_BASE_URL="zz")
    assert "API_BASE_URL" in line


def test_the_start_is_refused_in_one_line() -> None:
    done = run_module("server.app", INFERENCEGYM_PPO_CHECKPOINT="/no/such/folder", PORT="0")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("setting INFERENCEGYM_PPO_CHECKPOINT: '/no/such/folder' does not exist")
