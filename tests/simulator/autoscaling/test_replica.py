"""A replica's table against the request-level engine of Serving-v0, which serves every request by itself."""

from __future__ import annotations

import numpy as np
import pytest

from inferencegym.errors import InvalidValueError
from simulator.autoscaling.replica import DEFAULT_REPLICA, ReplicaConfig, replica_table
from simulator.serving.engine import Knobs
from tests.simulator.engines import drawn, served, workload

KNOBS = Knobs(kv_budget=DEFAULT_REPLICA.kv_budget, batch_size=DEFAULT_REPLICA.batch_size)
TABLE = replica_table()
SECONDS, WARM_UP = 400, 60


def engine_means(rate_rps: float) -> dict[str, float]:
    """Long-run means of one engine under Poisson arrivals of the mean request."""
    prompt, output = int(DEFAULT_REPLICA.prompt_tokens), int(DEFAULT_REPLICA.output_tokens)
    config = workload(
        rate_rps, prompts={"low": prompt, "high": prompt}, outputs={"low": output, "high": output}
    )
    results = served(drawn(config, SECONDS, seed=1), KNOBS, config)[WARM_UP:]
    return {
        "finished": float(np.mean([result.finished for result in results])),
        "running": float(np.mean([result.running for result in results])),
    }


@pytest.mark.parametrize("rate_rps", [1.5, 3.0, 4.5, 5.5, 6.5])
def test_concurrency_and_token_time_are_those_of_the_engine(rate_rps: float) -> None:
    engine = engine_means(rate_rps)
    running = float(np.interp(engine["finished"], TABLE.rate_rps, np.arange(TABLE.limit + 1)))
    assert running == pytest.approx(engine["running"], rel=0.06)
    # Little's law: what a request's output takes, its prefill included, a token.
    token_ms = 1000.0 * engine["running"] / (engine["finished"] * DEFAULT_REPLICA.output_tokens)
    assert float(np.interp(running, np.arange(TABLE.limit + 1), TABLE.tpot_ms)) == pytest.approx(
        token_ms, rel=0.06
    )


def test_the_peak_is_that_of_the_saturated_engine() -> None:
    assert engine_means(12.0)["finished"] == pytest.approx(TABLE.peak_rps, rel=0.05)


def test_columns_rise_with_the_load() -> None:
    for column in (TABLE.rate_rps, TABLE.tpot_ms[1:], TABLE.ttft_ms[1:], TABLE.kv_share):
        assert (np.diff(column) > 0.0).all()
    assert TABLE.rate_rps[TABLE.limit] == TABLE.peak_rps
    assert TABLE.kv_share[TABLE.limit] <= 1.0


def test_a_cache_that_holds_no_request_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="kv_budget"):
        replica_table(ReplicaConfig(kv_budget=0.1, prompt_tokens=100_000.0))
