"""Controllers of InferenceGym/Autoscaling-v0 that operators know, and two of ours.

None of them reads a missing metric as zero, or forgets replicas that are still starting. Those that do are in
:mod:`agents.autoscaling.naive`.
"""

from __future__ import annotations

from collections import deque
from math import ceil

import numpy as np

from inferencegym.models.autoscaling import (
    MAX_REPLICAS,
    MIN_REPLICAS,
    MOVES,
    AutoscalingAction,
    AutoscalingObservation,
)
from simulator.kernels.sums import ordered_sum

__all__ = [
    "HPA",
    "KPA",
    "Constant",
    "Forecast",
    "RandomMoves",
    "Saturation",
    "Threshold",
    "hpa_replicas",
    "to_total",
]

_INTERVAL_S = 15
_KEEP = AutoscalingAction()
_UP, _DOWN = AutoscalingAction(action="scale_up"), AutoscalingAction(action="scale_down")


def to_total(replicas: float) -> AutoscalingAction:
    """Ask for a total, held to what the fleet may be."""
    return AutoscalingAction(target_replicas=int(min(max(replicas, MIN_REPLICAS), MAX_REPLICAS)))


class Constant:
    """The same action for ever."""

    def __init__(self, action: AutoscalingAction = _KEEP) -> None:
        self.action = action

    def reset(self) -> None:
        """Nothing to forget."""

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The action, whatever is observed."""
        return self.action


class RandomMoves:
    """A uniformly random move every interval."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.reset()

    def reset(self) -> None:
        """Start the draws again."""
        self._rng = np.random.default_rng([self._seed, 5])

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """A random move."""
        return AutoscalingAction(action=MOVES[int(self._rng.integers(3))])


class Threshold:
    """The rule most people write first: one more above a line, one less below another, a pause after each.

    The pause is a minute before it goes up again, and two before it goes down. It is shorter than a cold
    start, so it orders more than it needs; longer ones were tried and do worse
    (docs/environments/autoscaling.md).
    """

    def __init__(self, high: float = 0.8, low: float = 0.65, up_wait: int = 4, down_wait: int = 8) -> None:
        self.high, self.low = high, low
        self.up_wait, self.down_wait = up_wait, down_wait
        self.reset()

    def reset(self) -> None:
        """Forget the last change."""
        self._since = 1_000

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """One step up or down, or nothing."""
        self._since += 1
        if observation.metrics_missing:
            return _KEEP
        busy = max(observation.cpu, 0.8 * observation.latency)
        if busy > self.high and self._since >= self.up_wait:
            self._since = 0
            return _UP
        if busy < self.low and self._since >= self.down_wait:
            self._since = 0
            return _DOWN
        return _KEEP


def hpa_replicas(
    current: int, ready: int, unready: int, utilisation: float, target: float, tolerance: float = 0.1
) -> int:
    """Replicas that Kubernetes' HorizontalPodAutoscaler computes from one resource metric.

    desired = ceil(ready × utilisation ÷ target), unless the ratio is within ``tolerance`` of 1. When it
    points up, replicas that are not ready yet count with a utilisation of 0, which damps it; if the damped
    ratio is within the tolerance, or points down, nothing changes.

    Source: Kubernetes documentation, Horizontal Pod Autoscaling, "Algorithm details".

    Args:
        current: replicas asked for.
        ready: replicas that the utilisation is the mean of.
        unready: replicas that are starting.
        utilisation, target: in the same unit.
    """
    ratio = utilisation / target
    if ready == 0:
        return current
    if unready == 0 or ratio <= 1.0:
        return current if abs(ratio - 1.0) <= tolerance else ceil(_exact(ratio * ready))
    damped = ratio * ready / (ready + unready)
    if abs(damped - 1.0) <= tolerance or damped < 1.0:
        return current
    return max(current, ceil(_exact(damped * (ready + unready))))


def _exact(replicas: float) -> float:
    """50 × 90 ÷ 75 is 60, and not the next float above it."""
    return round(replicas, 9)


class HPA:
    """Kubernetes' HorizontalPodAutoscaler with its documented defaults.

    Every 15 s (``--horizontal-pod-autoscaler-sync-period``): :func:`hpa_replicas` with a tolerance of 10 %;
    up at once, by at most 100 % or 4 replicas per 15 s, whichever is more; down to the highest recommendation
    of the last 300 s (``stabilizationWindowSeconds``). Without metrics it does nothing.

    Args:
        target: utilisation that it steers to; it is the one number an operator must choose.
        metric: field of the observation that it reads.
    """

    stabilisation_s = 300

    def __init__(self, target: float = 0.75, metric: str = "cpu") -> None:
        self.target, self.metric = target, metric
        self.reset()

    def reset(self) -> None:
        """Forget all recommendations."""
        self._recommended: deque[int] = deque(maxlen=self.stabilisation_s // _INTERVAL_S)

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The total it wants."""
        if observation.metrics_missing:
            return _KEEP
        return self.steer(
            observation.replicas_target,
            observation.replicas_ready,
            observation.replicas_pending,
            float(getattr(observation, self.metric)),
        )

    def steer(self, current: int, ready: int, unready: int, utilisation: float) -> AutoscalingAction:
        """The total it wants, for ``current`` replicas of which some are ready and some are not."""
        wanted = hpa_replicas(current, ready, unready, utilisation, self.target)
        self._recommended.append(wanted)
        if wanted > current:
            return to_total(min(wanted, max(2 * current, current + 4)))
        # Down only as far as every recommendation of the window allows.
        return to_total(min(max(self._recommended), current))


class KPA:
    """Knative's pod autoscaler: concurrency over a stable window of 60 s, and panic over one of 6 s.

    desired = ceil(mean concurrency of the service ÷ target per replica). When the panic window asks for twice
    the ready replicas or more (``panic-threshold-percentage`` 200), it panics: then it follows the higher of
    the two windows and never goes down, until a stable window has passed without cause. Down to no less than
    half of the ready replicas at once (``max-scale-down-rate`` 2). Concurrency counts waiting requests too,
    as Knative's activator reports them.

    Source: Knative documentation, "Additional autoscaling configuration for Knative Pod Autoscaler".

    Args:
        limit: requests that a replica is meant to hold (``container-concurrency-target-default``).
        utilisation: share of them that is aimed at (``container-concurrency-target-percentage`` 70).
    """

    stable_intervals = 4
    panic_threshold = 2.0
    max_scale_down_rate = 2.0
    max_scale_up_rate = 1000.0

    def __init__(self, limit: float = 64.0, utilisation: float = 0.7) -> None:
        self.target = limit * utilisation
        self.reset()

    def reset(self) -> None:
        """Calm, with empty windows."""
        self._window: deque[float] = deque(maxlen=self.stable_intervals)
        self._calm_for = self.stable_intervals
        self._most_in_panic = 0

    @property
    def panicking(self) -> bool:
        """In panic mode."""
        return self._most_in_panic > 0

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The total it wants."""
        if observation.metrics_missing:
            return _KEEP
        self._window.append(observation.concurrency)
        ready = max(1, observation.replicas_ready)
        stable = self._limited(ordered_sum(self._window) / len(self._window), ready)
        panic = self._limited(observation.concurrency_6s, ready)
        self._note_panic(ceil(observation.concurrency_6s / self.target) / ready)
        if self.panicking:
            self._most_in_panic = max(self._most_in_panic, stable, panic)
            return to_total(self._most_in_panic)
        return to_total(stable)

    def _limited(self, concurrency: float, ready: int) -> int:
        wanted = ceil(concurrency / self.target)
        least = int(ready / self.max_scale_down_rate)
        return int(min(max(wanted, least), ceil(self.max_scale_up_rate * ready)))

    def _note_panic(self, ratio: float) -> None:
        if ratio >= self.panic_threshold:
            self._calm_for = 0
            self._most_in_panic = max(self._most_in_panic, 1)
        else:
            self._calm_for += 1
            if self._calm_for > self.stable_intervals:
                self._most_in_panic = 0


class Saturation:
    """Saturation of KV cache and queue, as llm-d's workload-variant autoscaler judges it.

    A replica is saturated at a KV occupancy of 0.80 or 5 waiting requests. One more when the mean spare
    falls below 0.10 of the cache or 3 requests; one less when the rest could take the load and keep that
    spare. Never while replicas are pending, so that a start is awaited before the next is ordered.
    """

    kv_limit, queue_limit = 0.80, 5.0
    kv_spare, queue_spare = 0.10, 3.0

    def reset(self) -> None:
        """Nothing to forget."""

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """One step up or down, or nothing."""
        ready = observation.replicas_ready
        if observation.metrics_missing or observation.replicas_pending > 0 or ready == 0:
            return _KEEP
        queue = observation.queue_depth / ready
        if (
            self.kv_limit - observation.kv_occupancy < self.kv_spare
            or self.queue_limit - queue < self.queue_spare
        ):
            return _UP
        if ready > 1:
            rest = ready / (ready - 1)
            kv_left = self.kv_limit - observation.kv_occupancy * rest
            queue_left = self.queue_limit - queue * rest
            if kv_left >= self.kv_spare and queue_left >= self.queue_spare:
                return _DOWN
        return _KEEP


class Forecast:
    """Orders what traffic will need by the time a new replica is there.

    A straight line through the arrivals of the last minutes, looked ahead by a cold start; the capacity of a
    replica comes from the observation itself (arrivals ÷ traffic ÷ ready replicas). Up at once; down, when a
    lower number has been enough for a while even at a lower utilisation.

    Args:
        up, down: utilisation aimed at when going up, and when going down.
        lead: intervals to look ahead.
        window: intervals that the line goes through.
        patience: intervals for which less must have been enough.
    """

    def __init__(
        self, up: float = 0.82, down: float = 0.75, lead: float = 15.0, window: int = 16, patience: int = 10
    ) -> None:
        self.up, self.down, self.lead = up, down, lead
        self.window, self.patience = window, patience
        self.reset()

    def reset(self) -> None:
        """Nothing seen yet."""
        self._rates: deque[float] = deque(maxlen=self.window)
        self._capacity_rps = 0.0
        self._enough_for = 0

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The total it wants."""
        if observation.metrics_missing:
            return _KEEP
        self._rates.append(observation.arrival_rate_rps)
        self._learn_capacity(observation)
        peak_rps = self._expect(observation.metrics_age_s / _INTERVAL_S)
        current = observation.replicas_target
        wanted = ceil(peak_rps / (self.up * self._capacity_rps))
        enough = ceil(peak_rps / (self.down * self._capacity_rps))
        self._enough_for = self._enough_for + 1 if enough < current else 0
        if wanted > current:
            return to_total(wanted)
        if self._enough_for >= self.patience:
            self._enough_for = 0
            return to_total(enough)
        return _KEEP

    def _expect(self, age: float) -> float:
        """Arrivals per second, the higher of now and then."""
        rates = np.asarray(self._rates)
        count = len(rates)
        if count < _LEAST_POINTS:
            return float(rates.mean())
        at = np.arange(count) - 0.5 * (count - 1)
        slope = float(at @ rates / (at @ at)) * count / (count + _LEAST_POINTS)
        now = float(rates.mean()) + slope * (0.5 * (count - 1) + age)
        return max(now, now + slope * self.lead)

    def _learn_capacity(self, observation: AutoscalingObservation) -> None:
        """What one replica serves at most. Only a fleet that has not changed lately tells it exactly."""
        share = observation.traffic * observation.replicas_ready
        found = observation.arrival_rate_rps / max(share, 1e-9)
        settled = observation.replicas_pending == 0 and observation.replicas_draining == 0
        if not self._capacity_rps:
            self._capacity_rps = max(found, 1e-9)
        elif settled and share > 0.0:
            self._capacity_rps += 0.2 * (found - self._capacity_rps)


_LEAST_POINTS = 4
"""Points from which on a line is drawn; its slope is trusted more the more there are."""
