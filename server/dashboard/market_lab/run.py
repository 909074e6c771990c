"""A run of the Market lab: what was chosen, checked, and played with the surges and shocks pressed so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from agents.market.duel import Duel
from agents.market.files import PATTERN, load_parameters, newest_parameters, read_parameters
from agents.market.play import POLICIES, Policy, gain_policy, named_policy
from agents.market.policies import PriceParameters
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from inferencegym.models.market import ARRIVAL_RATE_MAX, ARRIVAL_RATE_MIN, GPUS_MAX, GPUS_MIN
from server.dashboard.market_lab.objective import checked_objective
from server.dashboard.typed import checked_number, typed_seed
from simulator.market.config import MarketSetup, load_market
from simulator.market.kernel import EPISODE_HOURS_MAX, OPENING_HOURS

__all__ = [
    "CHOICES",
    "HOURS_MAX",
    "HOURS_MIN",
    "NEWEST",
    "RETRAINED",
    "Press",
    "PressKind",
    "Run",
    "checked_setup",
    "too_late",
]

RETRAINED = "retrained here"
NEWEST = "newest file"
"""The policy of the newest ga_best_params*.json in the folder that the server was started in."""
CHOICES = (*POLICIES, NEWEST)
HOURS_MIN, HOURS_MAX = 24, EPISODE_HOURS_MAX - OPENING_HOURS

PressKind = Literal["surge", "shock"]


@dataclass(frozen=True, slots=True)
class Press:
    """A surge or a shock that begins once ``hour`` hours have been played."""

    kind: PressKind
    hour: int


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that a run follows from; equal runs are played equally.

    Args:
        setup: the market of both sides.
        hours: length.
        seed: of the customers.
        policies: names of the left and the right policy.
        retrained: parameters of the policy that the visitor trained, if there are any.
        presses: surges and shocks.
        file: name and parameters of the newest file, if a side plays it; kept, since a newer one may come.
    """

    setup: MarketSetup
    hours: int
    seed: int
    policies: tuple[str, str]
    retrained: PriceParameters | None = None
    presses: tuple[Press, ...] = ()
    file: tuple[str, PriceParameters] | None = None

    def __post_init__(self) -> None:
        """Raises InferenceGymError for a policy that cannot play."""
        for name in self.policies:
            self._policy(name)

    @classmethod
    def checked(
        cls,
        setup: MarketSetup,
        hours: Any,
        seed: Any,
        policies: Sequence[Any],
        retrained: PriceParameters | None,
    ) -> Run:
        """A run from what a visitor typed. Raises InferenceGymError."""
        left, right = policies
        return cls(
            setup,
            int(checked_number("Length (h)", hours, HOURS_MIN, HOURS_MAX, whole=True)),
            typed_seed(seed, "Seed of the customers"),
            (left, right),
            retrained,
            file=newest_file(setup) if NEWEST in (left, right) else None,
        )

    def pressed(self, kind: Any, hour: Any) -> Run:
        """The run with one more surge or shock.

        Raises:
            InvalidValueError: no such kind, or an hour at which that was pressed before.
        """
        if kind not in get_args(PressKind):
            raise InvalidValueError("button", kind, "surge or shock")
        if isinstance(hour, bool) or not isinstance(hour, int) or not 0 <= hour < self.hours:
            raise too_late(kind)
        if Press(kind, hour) in self.presses:
            raise InferenceGymError(f"A {kind} begins after hour {hour} already.", "Play on and press again.")
        order = sorted((*self.presses, Press(kind, hour)), key=lambda press: (press.hour, press.kind))
        return replace(self, presses=tuple(order))

    def play(self) -> Duel:
        """Both sides from the first hour to the last: up to a press's hour as without it."""
        left, right = self.policies
        names = (f"{left}, left", f"{right}, right") if left == right else (left, right)
        sides = [(name, self._policy(policy)) for name, policy in zip(names, self.policies, strict=True)]
        duel = Duel(self.setup, sides[0], sides[1], self.seed, self.hours)
        while not duel.done:
            for press in self.presses:
                if press.hour == duel.hour:
                    (duel.surge if press.kind == "surge" else duel.shock)()
            duel.step()
        return duel

    def parameters(self) -> list[tuple[str, PriceParameters]]:
        """Name and parameters of the sides that have some."""
        found: list[tuple[str, PriceParameters]] = []
        for name in dict.fromkeys(self.policies):
            if name == RETRAINED and self.retrained is not None:
                found.append((name, self.retrained))
            elif name == NEWEST and self.file is not None:
                found.append(self.file)
            elif name == "evolved":
                found.append((name, load_parameters(self.setup.scenario)))
            elif name == "untrained":
                found.append((name, PriceParameters.untrained(self.setup)))
        return found

    def _policy(self, name: str) -> Policy:
        if name == RETRAINED:
            if self.retrained is None:
                raise InferenceGymError(
                    "There is no retrained policy of yours: you have trained none yet, or the server was "
                    "restarted since.",
                    "Press “Apply scenario and retrain”.",
                )
            return gain_policy(self.setup, self.retrained)
        if name == NEWEST and self.file is not None:
            return gain_policy(self.setup, self.file[1])
        if name not in POLICIES:
            raise UnknownNameError("policy", name, (*CHOICES, RETRAINED))
        return named_policy(name, self.setup)


def newest_file(setup: MarketSetup, folder: Path | None = None) -> tuple[str, PriceParameters]:
    """Name and parameters of the newest file that was made for the scenario, else of the newest of all.

    Raises InferenceGymError: there is none, or it is not what it should be.
    """
    folder = Path() if folder is None else folder
    found = newest_parameters(folder, setup.scenario) or newest_parameters(folder)
    if found is None:
        raise InferenceGymError(
            f"There is no {PATTERN} in the server's folder.",
            f"Who runs the server makes one there: inferencegym market train-ga --scenario {setup.scenario}.",
        )
    return found.name, read_parameters(found, setup)[0]


def too_late(kind: str) -> InferenceGymError:
    """The error of a surge or a shock after the end of a run."""
    return InferenceGymError(
        f"The run is over: there is nothing left that a {kind} could hit.",
        "Move the slider back and press again.",
    )


def checked_setup(scenario: Any, gpus: Any, arrival_rate: Any, objective: Sequence[Any] = ()) -> MarketSetup:
    """The market that a visitor typed; without an objective the scenario's own. Raises InferenceGymError."""
    name = str(scenario)
    return load_market().setup(
        name,
        int(checked_number("GPUs", gpus, GPUS_MIN, GPUS_MAX, whole=True)),
        checked_number("Arrival rate (jobs/h)", arrival_rate, ARRIVAL_RATE_MIN, ARRIVAL_RATE_MAX),
        checked_objective(name, objective) if objective else None,
    )
