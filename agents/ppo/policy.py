"""The trained PPO policy as an agent: a small network in NumPy, from a file that ``ppo_demo`` wrote.

Playing needs the extra ``gym`` (the observation vector is the gymnasium environment's) but neither PyTorch
nor Stable-Baselines3. Policies of the reference tables come with the project (``agents/data/ppo_*.npz``).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from agents.ppo.coding import coding_of, observation_entries
from env.checks import checked_whole
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.registry import get_spec

__all__ = ["CHECKPOINT_VARIABLE", "POLICY_FILE", "PPOAgent", "Policy", "checkpoint_path", "load_agent"]

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

CHECKPOINT_VARIABLE = "INFERENCEGYM_PPO_CHECKPOINT"
"""Names a policy file, or a folder that holds ``ENV/TASK/policy.npz``, to play instead of the shipped one."""

POLICY_FILE = "policy.npz"
LAYERS_MAX = 32
_SHIPPED = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class Policy:
    """A network: dense layers with tanh between them; the last gives the logits of all dials in a row.

    Attributes:
        env: short name of the environment that it was trained on.
        task_id: its task there.
        layers: pairs of weights (outputs, inputs) and biases (outputs,).
        settings: how it was trained, JSON-ready.
    """

    env: str
    task_id: str
    layers: tuple[tuple[FloatArray, FloatArray], ...]
    settings: dict[str, Any]

    def logits(self, seen: FloatArray) -> FloatArray:
        """(N, settings of all dials) for what the network sees (N, width)."""
        values = seen
        for index, (weights, biases) in enumerate(self.layers):
            values = values @ weights.T + biases
            if index + 1 < len(self.layers):
                values = np.tanh(values)
        return values

    def choose(self, seen: FloatArray, sizes: Sequence[int] | IntArray) -> IntArray:
        """(N, D): the likeliest setting of each dial; ``sizes`` (D,) are their numbers of settings."""
        parts = np.split(self.logits(seen), np.cumsum(sizes)[:-1], axis=1)
        return np.stack([part.argmax(axis=1) for part in parts], axis=1)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all weights and biases: two policies with the same one play alike."""
        numbers = b"".join(array.tobytes() for layer in self.layers for array in layer)
        return sha256(numbers).hexdigest()

    def save(self, path: Path) -> None:
        """Write the file that :meth:`load` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {f"weights_{i}": weights for i, (weights, _) in enumerate(self.layers)}
        arrays |= {f"biases_{i}": biases for i, (_, biases) in enumerate(self.layers)}
        about = json.dumps(
            {"env": self.env, "task": self.task_id, "layers": len(self.layers), "settings": self.settings}
        )
        np.savez(path, about=np.array(about), **arrays)  # pyright: ignore[reportArgumentType]

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read a policy; nothing in the file is executed.

        Raises:
            InferenceGymError: not such a file.
        """
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                about = json.loads(str(stored["about"]))
                count = checked_whole("layers", about["layers"], 1, LAYERS_MAX)
                layers = [(stored[f"weights_{i}"], stored[f"biases_{i}"]) for i in range(count)]
            policy = cls(str(about["env"]), str(about["task"]), tuple(layers), dict(about["settings"]))
            policy.check()
        except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error) as error:
            reason = error.message if isinstance(error, InvalidValueError) else type(error).__name__
            raise InferenceGymError(
                f"{path} is not a policy file ({reason}).", "python -m agents.ppo.demo writes one."
            ) from None
        return policy

    def check(self) -> None:
        """Raises InvalidValueError for layers that do not fit each other, or numbers that are none."""
        entering: int | None = None
        for index, (weights, biases) in enumerate(self.layers):
            shapes = (weights.shape, biases.shape)
            fits = weights.ndim == 2 and weights.size > 0 and biases.shape == weights.shape[:1]
            if not fits or entering not in (None, weights.shape[1]):
                allowed = f"weights (outputs, {entering or 'inputs'}) and biases (outputs,)"
                raise InvalidValueError(f"layer {index}", shapes, allowed)
            for name, values in (("weights", weights), ("biases", biases)):
                if values.dtype.kind != "f" or not np.isfinite(values).all():
                    kind = f"{values.dtype} with {int((values != values).sum())} NaN"
                    raise InvalidValueError(f"{name} {index}", kind, "finite floating-point numbers")
            entering = weights.shape[0]


class PPOAgent:
    """Plays a trained policy on the task that it was trained on.

    Raises:
        InvalidValueError: the policy was trained for other dials.
    """

    def __init__(self, policy: Policy) -> None:
        self._spec = get_spec(policy.env)
        self._coding = coding_of(policy.env, policy.task_id)
        wants = (policy.layers[0][0].shape[1], policy.layers[-1][1].shape[0])
        has = (self._coding.width, int(self._coding.sizes.sum()))
        if wants != has:
            raise InvalidValueError(
                "policy", f"{wants[0]} inputs, {wants[1]} outputs", f"{has[0]} inputs, {has[1]} outputs"
            )
        self._policy = policy
        self.reset()

    def reset(self) -> None:
        """Start an episode: dials at the default action."""
        self._dials = self._coding.start(1)
        self._before: BaseModel | None = None

    def act(self, observation: BaseModel) -> Any:
        """The action for an observation; observations must come in order, one a step."""
        entries = observation_entries(self._spec, observation, self._before or observation)
        self._before = observation
        wanted = self._policy.choose(self._coding.see(entries, self._dials), self._coding.sizes)
        self._dials = self._coding.turn(self._dials, wanted)
        return self._coding.action(self._dials)


def checkpoint_path(env_id: str, task_id: str) -> Path:
    """Where the policy of a task is looked for: ``INFERENCEGYM_PPO_CHECKPOINT``, else the shipped one."""
    env, named = get_spec(env_id).name, os.environ.get(CHECKPOINT_VARIABLE)
    if not named:
        return _SHIPPED / f"ppo_{env}_{task_id}.npz"
    return Path(named) if named.endswith(".npz") else Path(named) / env / task_id / POLICY_FILE


def load_agent(env_id: str, task_id: str) -> PPOAgent:
    """The trained agent of a task.

    Raises:
        InferenceGymError: there is no policy file, or it is not one for this task.
    """
    env, path = get_spec(env_id).name, checkpoint_path(env_id, task_id)
    if not path.is_file():
        shown = path.name if path.parent == _SHIPPED else path
        raise InferenceGymError(
            f"There is no trained policy for {task_id} of {env}: {shown} does not exist.",
            f"Train one (extra demo): python -m agents.ppo.demo --env {env} --task {task_id}, "
            f"and name its file in {CHECKPOINT_VARIABLE}.",
        )
    policy = Policy.load(path)
    if (policy.env, policy.task_id) != (env, task_id):
        raise InvalidValueError(
            "policy", f"{policy.task_id} of {policy.env}", f"a policy that was trained on {task_id} of {env}"
        )
    return PPOAgent(policy)
