"""Traces and claims: canonical bytes, replay, and what verification says when something was changed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.market import claims as market_claims
from agents.market.claims import METHOD, Claim, differences, make_claim, read_claim, trace_differences
from agents.market.files import load_parameters
from agents.market.play import make_demand, named_policy, play_market
from agents.market.traces import CSV_COLUMNS, csv_row, merkle_root, trace_lines, write_csv
from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.market.config import MarketFiles, load_market
from tests.live import ROOT

FILES = load_market()


def lines_of(scenario: str, policy: str, seed: int, hours: int = 30) -> list[str]:
    setup = FILES.setup(scenario)
    return list(trace_lines(setup, named_policy(policy, setup), make_demand(setup, seed, hours), seed))


@pytest.fixture(scope="module")
def claimed() -> tuple[Claim, list[str]]:
    lines: list[str] = []
    parameters = load_parameters("surge").natural()
    claim = make_claim(FILES, "surge", parameters, [100, 105, 101], hours=40, on_line=lines.append)
    return claim, lines


# --- traces -------------------------------------------------------------------------------------------------


def test_trace_bytes_are_these_on_every_platform():
    assert merkle_root(line.encode() for line in lines_of("surge", "rule", 7, 48)) == TRACE_ROOT


def test_trace_bytes_are_equal_across_processes():
    text = (
        "from tests.agents.market.test_claims import lines_of; import hashlib;"
        "print(hashlib.sha256('\\n'.join(lines_of('adversarial', 'evolved', 3)).encode()).hexdigest())"
    )
    found = subprocess.run(
        [sys.executable, "-c", text],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "3", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    own = hashlib.sha256("\n".join(lines_of("adversarial", "evolved", 3)).encode()).hexdigest()
    assert found.stdout.strip() == own


def test_a_line_is_canonical_and_holds_whole_numbers_only():
    for line in lines_of("surge", "rule", 1, 5):
        entry = json.loads(line, parse_float=pytest.fail)
        assert line == json.dumps(entry, sort_keys=True, separators=(",", ":"))
        assert entry["counts"]["arrived"] == len(entry["jobs"])
        assert sum(entry["reward_terms"].values()) == entry["reward"]


def test_two_policies_have_the_same_latent_jobs_in_their_traces():
    one, other = (
        [json.loads(line) for line in lines_of("surge", policy, 9)] for policy in ("rule", "evolved")
    )
    assert [entry["jobs"] for entry in one] == [entry["jobs"] for entry in other]
    assert [entry["counts"]["price"] for entry in one] != [entry["counts"]["price"] for entry in other]


def test_the_merkle_root_depends_on_every_leaf_and_on_their_order():
    leaves = [bytes([number]) for number in range(7)]
    roots = {merkle_root(leaves), merkle_root(reversed(leaves)), merkle_root(leaves[:-1]), merkle_root([])}
    roots |= {merkle_root([*leaves[:i], b"x", *leaves[i + 1 :]]) for i in range(7)}
    assert len(roots) == 11


def test_the_csv_log_has_a_line_an_hour_in_dollars():
    setup = FILES.setup("steady")
    text = io.StringIO()
    played = list(play_market(setup, named_policy("rule", setup), make_demand(setup, 2, 20)))
    write_csv(text, CSV_COLUMNS, (csv_row(setup, hour) for hour in played))
    rows = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert len(rows) == 20
    for row in rows:
        assert float(row["revenue"]) == pytest.approx(float(row["price"]) * float(row["utilization"]) * 64)


# --- claims -------------------------------------------------------------------------------------------------


def test_a_claim_is_valid_and_says_that_it_is_replay(claimed: tuple[Claim, list[str]]):
    claim, lines = claimed
    assert differences(claim, FILES) == []
    assert trace_differences(claim, FILES, lines) == []
    assert claim.fitness == sum(claim.rewards) // 3
    assert "not a zero-knowledge proof" in claim.method == METHOD


def test_a_claim_is_valid_in_another_process(claimed: tuple[Claim, list[str]], tmp_path: Path):
    path = tmp_path / "claim.json"
    path.write_text(claimed[0].model_dump_json())
    assert read_claim(path) == claimed[0]
    done = verify(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "valid: 3 seeds replayed" in done.stdout
    assert "not a zero-knowledge proof" in done.stdout


def verify(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "inferencegym.cli", "market", "verify", str(path), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def changed(claim: Claim, **fields: Any) -> Claim:
    return Claim.model_validate(claim.model_dump() | fields)


def test_a_changed_parameter_is_found(claimed: tuple[Claim, list[str]]):
    claim = claimed[0]
    moved = {**claim.parameters, "base_price": claim.parameters["base_price"] + 0.000001}
    found = " ".join(differences(changed(claim, parameters=moved), FILES))
    assert "parameter_hash: the claim says" in found
    assert "fitness" in found or "trace_root" in found


def test_a_changed_seed_is_found(claimed: tuple[Claim, list[str]]):
    found = differences(changed(claimed[0], seeds=[100, 106, 101]), FILES)
    assert any(line.startswith("trace_roots of seed 106") for line in found)
    assert not any("seed 100" in line for line in found)
    missing = differences(changed(claimed[0], seeds=[100, 105]), FILES)
    assert any("3 in the claim, for 2 seeds" in line for line in missing)


def test_a_changed_configuration_is_found_by_key(claimed: tuple[Claim, list[str]], tmp_path: Path):
    claim = claimed[0]
    found = differences(changed(claim, config={**claim.config, "gpus": 65}), FILES)
    assert found == ["config.gpus: the claim says 65, the replay 64"]
    scenarios = dict(FILES.scenarios)
    scenarios["surge"] = scenarios["surge"].model_copy(update={"patience_h": 7})
    found = differences(claim, MarketFiles(FILES.objective, scenarios))
    assert any(line.startswith("config.patience_h: the claim says 6, the replay 7") for line in found)
    assert any(line.startswith("config_hash") for line in found)


def test_a_changed_reward_or_root_is_found(claimed: tuple[Claim, list[str]]):
    claim = claimed[0]
    assert [line.split(":")[0] for line in differences(changed(claim, fitness=claim.fitness + 1), FILES)] == [
        "fitness"
    ]
    rewards = [claim.rewards[0] + 1, *claim.rewards[1:]]
    assert "rewards of seed 100" in differences(changed(claim, rewards=rewards), FILES)[0]


def test_other_code_is_found(claimed: tuple[Claim, list[str]], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(market_claims, "_CODE", market_claims._CODE[1:])
    assert [line.split(":")[0] for line in differences(claimed[0], FILES)] == ["code_hash"]


def test_a_changed_trace_line_is_found_by_line_seed_hour_and_key(
    claimed: tuple[Claim, list[str]], tmp_path: Path
):
    claim, lines = claimed
    forged = [*lines[:43], lines[43].replace('"joined":', '"joined":1'), *lines[44:]]
    found = trace_differences(claim, FILES, forged)
    assert len(found) == 1
    assert found[0].startswith("trace line 44 (seed 105, hour 4): line.counts.joined: the claim says 1")
    assert "119 lines in the file, 120 in the replay" in trace_differences(claim, FILES, lines[:-1])[0]
    assert "not JSON" in trace_differences(claim, FILES, ["x", *lines[1:]])[0]
    claim_path, trace_path = tmp_path / "claim.json", tmp_path / "trace.jsonl"
    claim_path.write_text(claim.model_dump_json())
    trace_path.write_text("\n".join(forged) + "\n")
    done = verify(claim_path, "--trace", str(trace_path))
    assert done.returncode == 1
    assert "trace line 44 (seed 105, hour 4)" in done.stdout


@pytest.mark.parametrize("text", ["", "{}", '{"seeds": []}'])
def test_a_file_that_is_no_claim_is_named(tmp_path: Path, text: str):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(InvalidValueError, match=r"c\.json"):
        read_claim(path)
    with pytest.raises(InvalidValueError, match=r"none\.json"):
        read_claim(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"seeds": [-1, 105, 101]}, "seeds.0"),
        ({"seeds": [2**63, 105, 101]}, "seeds.0"),
        ({"seeds": [100.0, 105, 101]}, "seeds.0"),
        ({"seeds": ["100", 105, 101]}, "seeds.0"),
        ({"gpus": "64"}, "gpus"),
        ({"gpus": 64.0}, "gpus"),
        ({"fitness": True}, "fitness"),
        ({"parameters": {"base_price": "2"}}, "parameters.base_price"),
    ],
)
def test_a_value_of_another_type_is_named(
    claimed: tuple[Claim, list[str]], tmp_path: Path, fields: dict[str, Any], says: str
):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(claimed[0].model_dump() | fields))
    with pytest.raises(InvalidValueError, match=rf"c\.json\.{says}"):
        read_claim(path)


def test_a_key_that_stands_there_twice_is_refused(claimed: tuple[Claim, list[str]], tmp_path: Path):
    path = tmp_path / "c.json"
    path.write_text(claimed[0].model_dump_json().replace('{"method"', '{"fitness":1,"method"', 1))
    with pytest.raises(InvalidValueError, match="'fitness' stands there twice"):
        read_claim(path)
    path.write_text("[" * 100_000)
    with pytest.raises(InvalidValueError, match=r"c\.json"):
        read_claim(path)


def test_a_seed_counts_once(claimed: tuple[Claim, list[str]]):
    with pytest.raises(InvalidValueError, match="each seed once"):
        make_claim(FILES, "surge", claimed[0].parameters, [100, 100], hours=5)
    with pytest.raises(InvalidValueError, match=r"seeds\[1\]"):
        make_claim(FILES, "surge", claimed[0].parameters, [100, -1], hours=5)
    with pytest.raises(InvalidValueError, match="each seed once"):
        differences(changed(claimed[0], seeds=[100, 105, 100]), FILES)


def test_another_spelling_of_a_number_is_found(claimed: tuple[Claim, list[str]]):
    claim = claimed[0]
    moved = {**claim.parameters, "queue_gain": claim.parameters["queue_gain"] + 1e-9}
    assert differences(changed(claim, parameters=moved), FILES)[0].startswith("parameters.queue_gain")
    typed = {**claim.config, "gpus": 64.0}
    assert differences(changed(claim, config=typed), FILES)[0].startswith("config.gpus")
    rated = make_claim(FILES, "surge", claim.parameters, [100], hours=5, arrival_rate=11.00000001)
    assert rated.arrival_rate == 11.0
    assert differences(rated, FILES) == []
    assert differences(changed(rated, arrival_rate=11.00000001), FILES)[0].startswith("arrival_rate")


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda text: text.replace("\n", "\r\n"), 1, "the same values in other bytes"),
        (lambda text: "[" * 100_000 + "\n" + text, 1, "not JSON"),
        (lambda text: text.removesuffix("\n"), 2, "line feed"),
        (lambda text: text, 0, "valid"),
    ],
)
def test_the_bytes_of_a_trace_are_compared(
    claimed: tuple[Claim, list[str]], tmp_path: Path, change: Any, code: int, says: str
):
    claim_path, trace_path = tmp_path / "claim.json", tmp_path / "trace.jsonl"
    claim_path.write_text(claimed[0].model_dump_json())
    trace_path.write_bytes(change("".join(f"{line}\n" for line in claimed[1])).encode())
    done = verify(claim_path, "--trace", str(trace_path))
    assert done.returncode == code, done.stderr
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_claim_that_cannot_be_played_says_why(claimed: tuple[Claim, list[str]]):
    with pytest.raises(UnknownNameError, match="surge"):
        differences(changed(claimed[0], scenario="srge"), FILES)
    with pytest.raises(InvalidValueError, match=r"parameters\.smoothing"):
        differences(changed(claimed[0], parameters={**claimed[0].parameters, "smoothing": 2}), FILES)


TRACE_ROOT = "4a79008835dbfae54d07fcde3674a2964d312429aad0f5f4fa3cbcc2bf22cf5d"
"""Of the rule on scenario surge, seed 7, 48 hours. Changes only with what an episode is."""
