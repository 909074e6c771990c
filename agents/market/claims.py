"""Claims about a pricing policy, and their verification by replay.

A claim says: under this configuration and this code, these parameters reach this fitness on these seeds, and
the episodes went exactly so (a Merkle root over their traces). Whoever verifies plays everything again and
compares. That is a replay, **not a zero-knowledge proof**: the claim discloses the parameters, and the
verifier does all the work once more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.market.play import gain_policy, make_demand
from agents.market.policies import PriceParameters
from agents.market.traces import merkle_root, trace_lines
from env.checks import SEED_LIMIT, checked_seed, invalid_value
from inferencegym.errors import InvalidValueError
from inferencegym.models.market import EPISODE_HOURS
from simulator.market.config import MarketFiles, MarketSetup, canonical_json
from simulator.market.kernel import EPISODE_HOURS_MAX, OPENING_HOURS, SCALE

__all__ = ["METHOD", "Claim", "code_hash", "differences", "make_claim", "read_claim", "trace_differences"]

METHOD = "replay: the verifier plays every episode again; this is not a zero-knowledge proof"

_CODE = (
    *("simulator/market/kernel.py", "simulator/market/engine.py", "simulator/market/config.py"),
    *(
        "env/market/reward.py",
        "agents/market/policies.py",
        "agents/market/play.py",
        "agents/market/traces.py",
    ),
)
"""Files that decide how an episode goes and how it is written down."""

OnSeed = Callable[[], None]


class Claim(BaseModel):
    """What is claimed. Hashes are SHA-256 in hexadecimal; fitness and rewards are whole numbers at SCALE."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    method: str = METHOD
    scenario: str
    gpus: int | None = Field(None, description="Instead of the scenario's.")
    arrival_rate: float | None = Field(None, description="Instead of the scenario's.")
    hours: int = Field(ge=1, le=EPISODE_HOURS_MAX - OPENING_HOURS)
    config: dict[str, Any] = Field(description="The market in whole numbers.")
    config_hash: str
    code_hash: str
    parameters: dict[str, float]
    parameter_hash: str
    seeds: list[Annotated[int, Field(ge=0, lt=SEED_LIMIT)]] = Field(min_length=1, max_length=10_000)
    fitness: int = Field(description="Mean sum of rewards of an episode, rounded down.")
    rewards: list[int] = Field(description="Sum of rewards of each seed's episode.")
    deaths: int = Field(description="Episodes in which the market died.")
    trace_roots: list[str] = Field(description="Merkle root of each seed's trace lines.")
    trace_root: str = Field(description="Merkle root of those.")


def code_hash() -> str:
    """SHA-256 over the names and texts of the files that decide an episode."""
    root = Path(__file__).resolve().parents[2]
    digest = sha256()
    for name in _CODE:
        digest.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
    return digest.hexdigest()


def make_claim(
    files: MarketFiles,
    scenario: str,
    parameters: Mapping[str, float],
    seeds: Sequence[int],
    hours: int = EPISODE_HOURS,
    gpus: int | None = None,
    arrival_rate: float | None = None,
    on_seed: OnSeed = lambda: None,
    on_line: Callable[[str], None] = lambda line: None,
) -> Claim:
    """Play all seeds and say what came of them. ``on_line`` gets every trace line, seed after seed.

    Raises:
        UnknownNameError: no such scenario or parameter.
        InvalidValueError: a value that is not allowed, or a seed that stands there twice.
    """
    setup = files.setup(scenario, gpus, arrival_rate)
    found = PriceParameters.checked(parameters, setup)
    _check_seeds(seeds)
    rewards: list[int] = []
    roots: list[str] = []
    deaths = 0
    for seed in seeds:
        lines = _trace(setup, found, seed, hours)
        for line in lines:
            on_line(line)
        last = json.loads(lines[-1])
        rewards.append(last["cumulative_reward"])
        deaths += last["counts"]["dead"]
        roots.append(merkle_root(line.encode() for line in lines))
        on_seed()
    return Claim(
        scenario=scenario,
        gpus=gpus,
        arrival_rate=None if arrival_rate is None else setup.arrival_rate / SCALE,
        hours=hours,
        config=json.loads(canonical_json(asdict(setup))),
        config_hash=setup.config_hash(),
        code_hash=code_hash(),
        parameters=found.natural(),
        parameter_hash=found.hash(),
        seeds=list(seeds),
        fitness=sum(rewards) // len(seeds),
        rewards=rewards,
        deaths=deaths,
        trace_roots=roots,
        trace_root=merkle_root(root.encode() for root in roots),
    )


def _check_seeds(seeds: Sequence[int]) -> None:
    """Each seed once: episodes are repeated by repeating a seed, and a claim would count them as several."""
    if not seeds:
        raise InvalidValueError("seeds", seeds, "at least one seed")
    for index, seed in enumerate(seeds):
        checked_seed(seed, f"seeds[{index}]")
    seed, times = Counter(seeds).most_common(1)[0]
    if times > 1:
        raise InvalidValueError("seeds", seed, f"each seed once (it stands there {times} times)")


def _trace(setup: MarketSetup, parameters: PriceParameters, seed: int, hours: int) -> list[str]:
    policy = gain_policy(setup, parameters)
    return list(trace_lines(setup, policy, make_demand(setup, seed, hours), seed))


def read_claim(path: Path) -> Claim:
    """A claim from its file. Raises InvalidValueError that names file and field."""
    try:
        text = path.read_bytes()
        json.loads(text, object_pairs_hook=_once)
        return Claim.model_validate_json(text)
    except ValidationError as error:
        raise invalid_value(path.name, error, Claim) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidValueError(path.name, str(path), "a readable claim", str(error)) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each key once: readers differ in which of two values they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {name!r} stands there twice")
    return found


def differences(claim: Claim, files: MarketFiles, on_seed: OnSeed = lambda: None) -> list[str]:
    """Play the claim again and list where it differs from what happened; empty when it is valid.

    Raises as :func:`make_claim`, when the claim cannot be played at all.
    """
    again = make_claim(
        files,
        claim.scenario,
        claim.parameters,
        claim.seeds,
        claim.hours,
        claim.gpus,
        claim.arrival_rate,
        on_seed,
    )
    found = _unlike("config", claim.config, again.config)
    for name in (
        "parameters",
        "arrival_rate",
        "method",
        "config_hash",
        "code_hash",
        "parameter_hash",
        "fitness",
        "deaths",
        "trace_root",
    ):
        found += _unlike(name, getattr(claim, name), getattr(again, name))
    for name in ("rewards", "trace_roots"):
        stated, played = getattr(claim, name), getattr(again, name)
        if len(stated) != len(played):
            found.append(f"{name}: {len(stated)} in the claim, for {len(played)} seeds")
        for seed, one, other in zip(claim.seeds, stated, played, strict=False):
            found += _unlike(f"{name} of seed {seed}", one, other)
    return found


def _unlike(name: str, stated: Any, played: Any) -> list[str]:
    if isinstance(stated, dict) and isinstance(played, dict):
        one, other = cast("dict[str, Any]", stated), cast("dict[str, Any]", played)
        keys = sorted({*one, *other})
        return [line for key in keys for line in _unlike(f"{name}.{key}", one.get(key), other.get(key))]
    # As text: 1, 1.0 and true are equal to Python.
    if json.dumps(stated) == json.dumps(played):
        return []
    return [f"{name}: the claim says {_short(stated)}, the replay {_short(played)}"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def trace_differences(claim: Claim, files: MarketFiles, lines: Sequence[str], most: int = 5) -> list[str]:
    """Where a trace file differs from the replay of a claim: line numbers and keys; empty when equal."""
    setup = files.setup(claim.scenario, claim.gpus, claim.arrival_rate)
    parameters = PriceParameters.checked(claim.parameters, setup)
    played = [line for seed in claim.seeds for line in _trace(setup, parameters, seed, claim.hours)]
    found: list[str] = []
    for number, (stated, line) in enumerate(zip(lines, played, strict=False), start=1):
        if stated != line:
            found.append(f"trace line {number} ({_place(line)}): {_which(stated, line)}")
        if len(found) == most:
            break
    if len(lines) != len(played):
        found.append(f"trace: {len(lines)} lines in the file, {len(played)} in the replay")
    return found


def _place(line: str) -> str:
    entry = json.loads(line)
    return f"seed {entry['seed']}, hour {entry['hour']}"


def _which(stated: str, played: str) -> str:
    try:
        entry: Any = json.loads(stated)
        parts = _unlike("line", entry, json.loads(played))
    except (ValueError, RecursionError):
        return "not JSON of this kind"
    return parts[0] if parts else "the same values in other bytes"
