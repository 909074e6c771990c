"""``inferencegym market``: what each command writes and says, and wrong names and values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.inferencegym.cli.test_cli import Ran, Run, run

__all__ = ["run"]


def ok(result: Ran) -> str:
    assert result.code == 0, result.err
    return result.out


def test_train_claim_and_verify(run: Run, tmp_path: Path) -> None:
    params, claim, trace = (tmp_path / name for name in ("ga_best_params.json", "claim.json", "t.jsonl"))
    words = ("--generations", "1", "--population-size", "4", "--seeds", "12", "--output", params)
    told = ok(run("market", "train-ga", "--scenario", "surge", *words))
    assert "held-out" in told
    assert "against the rule" in told
    document = json.loads(params.read_text())
    assert (document["scenario"], document["settings"]["generations"]) == ("surge", 1)
    assert document["training_seeds"] == [10000, 10011]
    assert len(document["held_out"]) == 3
    assert ok(run("market", "newest", tmp_path)).strip() == str(params)
    words = ("--parameters", params, "--seeds", "3,4", "--hours", "30", "--output", claim, "--trace", trace)
    assert "not a zero-knowledge proof" in ok(run("market", "claim", "--scenario", "surge", *words))
    assert "valid: 2 seeds" in ok(run("market", "verify", claim, "--trace", trace))
    stated = json.loads(claim.read_text())
    stated["parameters"]["queue_gain"] += 0.5
    claim.write_text(json.dumps(stated))
    result = run("market", "verify", claim)
    assert result.code == 1
    assert "parameter_hash" in result.out


def test_no_generations_write_the_untrained_policy(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    ok(run("market", "train-ga", "--generations", "0", "--seeds", "12", "--output", path))
    parameters = json.loads(path.read_text())["parameters"]
    assert parameters["base_price"] == 4.0
    assert parameters["smoothing"] == 0.475


def test_trace_and_duel_write_their_logs(run: Run, tmp_path: Path) -> None:
    jsonl, log = tmp_path / "t.jsonl", tmp_path / "log.csv"
    told = ok(run("market", "trace", "--policy", "rule", "--hours", "20", "--jsonl", jsonl, "--csv", log))
    assert "20 hours (to the end)" in told
    assert len(jsonl.read_text().splitlines()) == 20
    assert len(log.read_text().splitlines()) == 21
    both = tmp_path / "duel.csv"
    told = ok(run("market", "duel", "--hours", "20", "--surge-at", "5", "--shock-at", "9", "--csv", both))
    assert "total reward" in told
    assert len(both.read_text().splitlines()) == 41


def test_scenarios_are_listed_from_any_file(run: Run, tmp_path: Path) -> None:
    assert "RTX 4090" in ok(run("market", "scenarios"))
    assert "adversarial" in json.loads(ok(run("market", "scenarios", "--json")))
    own = tmp_path / "own.yaml"
    own.write_text(
        "mine: {card: L40S, gpus: 8, arrival_rate: 2, median_limit: 1.2, opening_price: 1.2, events: []}\n"
    )
    assert list(json.loads(ok(run("market", "scenarios", "--json", "--scenarios", own)))) == ["mine"]
    told = ok(
        run("market", "trace", "--scenario", "mine", "--scenarios", own, "--policy", "rule", "--hours", "9")
    )
    assert "mine, rule" in told


def test_the_rule_has_both_names(run: Run) -> None:
    told = [ok(run("market", "trace", "--policy", name, "--hours", "9")) for name in ("rule", "baseline")]
    assert told[0].replace("rule", "baseline") == told[1]


def test_parameters_of_another_scenario_are_said_to_be(run: Run, tmp_path: Path) -> None:
    from agents.market.files import parameters_path

    path = parameters_path("surge")
    words = ("--scenario", "steady", "--parameters", path, "--hours", "9")
    for command in (("trace",), ("duel",), ("claim", "--seeds", "3", "--output", tmp_path / "c.json")):
        result = run("market", command[0], *command[1:], *words)
        assert result.code == 0, result.err
        assert "was made for scenario surge, it plays steady" in result.err
    result = run("market", "trace", *words[2:], "--scenario", "surge")
    assert "was made for" not in result.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("trace", "--scenario", "sruge"), 2, "surge"),
        (("trace", "--policy", "rul"), 2, "rule"),
        (("train-ga", "--seeds", "3", "--output", "x.json"), 2, "from 12"),
        (("train-ga", "--output", "/nowhere/x.json"), 2, "--output"),
        (("claim", "--seeds", "x", "--output", "c.json"), 2, "range"),
        (("claim", "--output", "c.json", "--parameters", "none.json"), 2, "none.json"),
        (("verify", "none.json"), 2, "none.json"),
        (("scenarios", "--objective", "none.yaml"), 2, "none.yaml"),
        (("trace", "--gpus", "3"), 2, "gpus"),
        (("newest",), 1, "train-ga"),
        (("duel", "--surge-at", "500"), 2, "an hour from 0 to 199"),
        (("duel", "--shock-at", "-3"), 2, "an hour from 0 to 199"),
        (("duel", "--surge-at", "60", "--surge-at", "60"), 2, "each hour once"),
        (("duel", "--seed", str(2**63)), 2, "--seed"),
        (("trace", "--seed", str(2**63)), 2, "--seed"),
        (("trace", "--jsonl", "x", "--csv", "./x"), 2, "another file than that of --jsonl"),
        (("claim", "--output", "x", "--trace", "x"), 2, "another file than that of --output"),
        (("claim", "--output", "x", "--seeds", "5,5"), 2, "each seed once"),
        (("trace", "--policy", "rule", "--parameters", "junk"), 2, "for the policy evolved only"),
        (("trace", "--parameters", "junk"), 2, "junk"),
        (("trace", "--arrival-rate", "1e-7"), 2, "arrival_rate"),
    ],
)
def test_wrong_words_are_named_and_write_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("market", *words)
    assert result.code == code, result.err
    assert says in result.err
    assert "Traceback" not in result.err
    assert list(tmp_path.iterdir()) == []
