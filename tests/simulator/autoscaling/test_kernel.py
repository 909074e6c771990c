"""The physics of a fleet: nothing is lost, replicas cost from their order on, overload passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferencegym.models.autoscaling import AUTOSCALING_STEPS, MAX_REPLICAS, SCENARIOS
from simulator.autoscaling.engine import Fleet, FleetSimulator
from simulator.autoscaling.plan import (
    COLD_START_S,
    INTERVAL_S,
    WARM_UP_INTERVALS,
    FleetConfig,
    Plan,
    Window,
    with_scenario,
)
from simulator.autoscaling.replica import DEFAULT_REPLICA, replica_table
from simulator.autoscaling.rows import COUNT, RESULT
from simulator.packs.io import read_pack, write_pack
from simulator.packs.trace_table import DEFAULT_PACK_PATH

STEADY = FleetConfig(base_rps=40.0, swing=0.0, noise=0.0)
ROUGH = FleetConfig(
    base_rps=50.0,
    swing=0.7,
    noise=0.05,
    spikes=Window((2, 3), (120.0, 240.0), (0.3, 0.8)),
    crashes=(4, 6),
    zone_outage=0.34,
    sick=Window((1, 2), (90.0, 180.0), (0.01, 0.05)),
    metric_gaps=Window((1, 2), (60.0, 120.0)),
    metric_delays=Window((1, 2), (60.0, 120.0), (3.0, 5.0)),
    metric_loss=0.1,
    update_s=1200.0,
    pause_s=2400.0,
)
COUNTED = ("arrived", "served", "timed_out", "failed", "corrupted")


class Ledger:
    """Plays a fleet and keeps the books: requests that came, went, wait and run."""

    def __init__(self, config: FleetConfig, seed: int = 0) -> None:
        self.simulator = FleetSimulator(config)
        self.fleet = Fleet(self.simulator, self.simulator.plan(seed))
        # Requests of the warm-up, of which only the last interval's counts are at hand.
        arrived = int(self.fleet.plan.arrivals()[:WARM_UP_INTERVALS].sum())
        self.open_before = self.inside
        assert 0 < self.open_before < arrived
        self.totals = dict.fromkeys(COUNTED, 0)

    @property
    def inside(self) -> int:
        return int(self.result("queue_depth") + self.result("running"))

    def result(self, name: str) -> float:
        return self.fleet.result[RESULT[name]]

    def play(self, move: int = 0, total: int = 0) -> None:
        self.fleet.play(move, total)
        for name in COUNTED:
            self.totals[name] += int(self.result(name))
        gone = sum(self.totals[name] for name in COUNTED[1:])
        assert self.open_before + self.totals["arrived"] == gone + self.inside


@given(
    st.integers(0, 2**63 - 1),
    st.lists(st.one_of(st.sampled_from((-1, 0, 1)), st.integers(2, MAX_REPLICAS)), min_size=1, max_size=60),
)
@settings(max_examples=6, deadline=None)
def test_no_request_is_lost_whatever_is_asked_for(seed: int, actions: list[int]) -> None:
    ledger = Ledger(ROUGH, seed)
    for step in range(AUTOSCALING_STEPS):
        action = actions[step % len(actions)]
        ledger.play(action if action < 2 else 0, action if action >= 2 else 0)
    assert ledger.totals["arrived"] == int(ledger.fleet.plan.arrivals()[WARM_UP_INTERVALS:].sum())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_request_is_lost_in_a_scenario(scenario: Any) -> None:
    ledger = Ledger(with_scenario(replace(STEADY, swing=0.5), scenario), 3)
    rng = np.random.default_rng(0)
    for move in rng.integers(-1, 2, AUTOSCALING_STEPS).tolist():
        ledger.play(move)


def test_drained_requests_are_finished_not_lost() -> None:
    ledger = Ledger(STEADY)
    ready, inside = ledger.result("replicas_ready"), ledger.result("running")
    ledger.play(total=1)
    assert ledger.result("replicas_ready") == 1
    # All but one were paid for while they finished what they had.
    assert ledger.result("replica_seconds") > INTERVAL_S + 5 * (ready - 1)
    assert ledger.totals["served"] > 0.9 * inside
    for _ in range(4):
        ledger.play()
    assert ledger.result("replicas_draining") == 0
    assert ledger.result("running") <= ledger.simulator.table.limit
    assert ledger.totals["failed"] == 0


def test_a_new_replica_is_pending_for_its_cold_start_and_paid_for_at_once() -> None:
    ledger = Ledger(STEADY)
    ready = ledger.result("replicas_ready")
    cold = float(ledger.fleet.plan.cold_start_s[0])
    assert COLD_START_S[0] <= cold <= COLD_START_S[1]
    waited = 0
    while True:
        ledger.play(1 if waited == 0 else 0)
        if ledger.result("replicas_ready") > ready:
            break
        waited += 1
        assert ledger.result("replicas_pending") == 1
        assert ledger.result("replica_seconds") == INTERVAL_S * (ready + 1)
    assert waited == int(cold // INTERVAL_S)


def test_a_pending_replica_is_taken_away_before_a_ready_one() -> None:
    ledger = Ledger(STEADY)
    ready = ledger.result("replicas_ready")
    ledger.play(1)
    ledger.play(-1)
    assert ledger.result("replicas_pending") == 0
    assert ledger.result("replicas_ready") == ready
    assert ledger.result("replicas_draining") == 0


def test_overload_shows_in_latency_and_errors_and_passes_when_capacity_arrives() -> None:
    ledger = Ledger(STEADY)
    for _ in range(30):
        ledger.play(total=2)
    assert ledger.result("latency") > 5.0
    assert ledger.result("error_rate") > 10.0
    assert ledger.result("cpu") == pytest.approx(1.0, abs=0.01)
    assert ledger.result("queue_depth") <= 31 * 60  # whoever waited 30 seconds has left
    for _ in range(30):
        ledger.play(total=9)
    assert ledger.result("healthy") == 1.0
    assert ledger.result("queue_depth") == 0


def test_utilisation_and_latency_follow_the_table_in_steady_state() -> None:
    ledger = Ledger(STEADY)
    cpu: list[float] = []
    for _ in range(100):
        ledger.play()
        cpu.append(ledger.result("cpu"))
    table, ready = ledger.simulator.table, ledger.result("replicas_ready")
    assert np.mean(cpu) == pytest.approx(40.0 / (ready * table.peak_rps), rel=0.02)
    running = int(ledger.result("running") / ready)
    assert ledger.result("tpot_ms") == pytest.approx(table.tpot_ms[running], rel=0.1)
    # Little's law: requests inside = arrivals × time in the service.
    seconds = DEFAULT_REPLICA.output_tokens * ledger.result("tpot_ms") / 1000.0
    assert ledger.result("concurrency") == pytest.approx(40.0 * seconds, rel=0.1)


def test_a_crash_fails_what_ran_and_the_fleet_comes_back_to_its_target() -> None:
    ledger = Ledger(replace(STEADY, zone_outage=0.5), 1)
    seen = False
    for _ in range(AUTOSCALING_STEPS):
        ledger.play()
        if ledger.result("failed") > 0:
            seen = True
            assert ledger.result("replicas_pending") > 0
            assert ledger.result("error_rate") > 1.0
    assert seen
    assert ledger.result("replicas_ready") == ledger.result("replicas_target")


def test_a_rolling_update_replaces_every_replica_and_ends() -> None:
    ledger = Ledger(replace(STEADY, update_s=0.0))
    old = ledger.result("replicas_ready")
    ledger.play()
    assert ledger.result("replicas_pending") == old
    assert ledger.result("replicas_target") == old
    for _ in range(24):
        ledger.play()
    assert ledger.fleet.count[COUNT["old"]] == 0
    assert ledger.result("replicas_ready") == old


def test_the_cheapest_schedule_keeps_a_replica_on_or_starts_it_anew_whichever_is_less() -> None:
    simulator = FleetSimulator(STEADY)
    plan = simulator.plan(0)
    per_replica = 0.9 * simulator.table.peak_rps
    needs = [3] * 5 + [2] * 4 + [3] * 5 + [1] * 40 + [3] * 5
    rate = plan.rate_rps.copy()
    rate[WARM_UP_INTERVALS : WARM_UP_INTERVALS + len(needs)] = [(n - 0.5) * per_replica for n in needs]
    fleet = Fleet(
        simulator, plan._replace(rate_rps=rate, noise=np.zeros_like(plan.noise), initial_replicas=3)
    )
    paid = 0.0
    for need in needs:
        fleet.play(0)
        assert fleet.result[RESULT["required_replicas"]] == need
        paid += fleet.result[RESULT["cheapest_replica_seconds"]]
    kept_on, started_anew = 4 * INTERVAL_S, 2 * simulator.rules.mean_cold_start_s
    assert paid == pytest.approx(INTERVAL_S * sum(needs) + kept_on + started_anew)


def states(fleet: Any, moves: Sequence[int]) -> list[tuple[Any, Any]]:
    seen: list[tuple[Any, Any]] = []
    for move in moves:
        fleet.play(0 if move == 2 else move, 7 if move == 2 else 0)
        seen.append((list(fleet.result), list(fleet.count)))
    return seen


def test_compiled_fleets_give_the_same_bits() -> None:
    compiled = pytest.importorskip("simulator.autoscaling.compiled")
    simulator = FleetSimulator(ROUGH)
    moves = np.random.default_rng(4).integers(-1, 3, AUTOSCALING_STEPS).tolist()
    plan: Plan = simulator.plan(11)
    plain, fast = Fleet(simulator, plan), compiled.CompiledFleet(simulator, plan)
    assert states(plain, moves[:100]) == states(fast, moves[:100])
    kept = fast.snapshot()
    ahead = states(fast, moves[100:])
    assert states(plain, moves[100:]) == ahead
    fast.restore(kept)
    assert states(fast, moves[100:]) == ahead


def test_another_gpu_gives_another_answer(tmp_path: Path) -> None:
    pack = read_pack(DEFAULT_PACK_PATH)
    slow = {name: values * (2.0 if "ms" in name else 1.0) for name, values in pack.columns.items()}
    path = tmp_path / "slow.parquet"
    write_pack(path, replace(pack, columns=slow))
    usual, slower = replica_table(), replica_table(DEFAULT_REPLICA, path)
    assert slower.peak_rps == pytest.approx(0.5 * usual.peak_rps)
    assert slower.tpot_ms[50] == pytest.approx(2.0 * usual.tpot_ms[50])
    there, here = FleetSimulator(STEADY, path), FleetSimulator(STEADY)
    assert there.plan(0).initial_replicas > here.plan(0).initial_replicas
    few = Fleet(there, there.plan(0)._replace(initial_replicas=here.plan(0).initial_replicas))
    enough = Fleet(here, here.plan(0))
    for _ in range(20):
        few.play(0)
        enough.play(0)
    assert enough.result[RESULT["healthy"]] == 1.0
    assert few.result[RESULT["healthy"]] == 0.0
    assert few.result[RESULT["required_replicas"]] > enough.result[RESULT["required_replicas"]]
