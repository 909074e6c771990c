"""What OpenEnv's own tools say about the running server, and the adapter behind its endpoints."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from openenv.core.env_server.interfaces import Environment
from openenv.validation.graders.runtime import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import RuntimePlan, load_runtime_plan

from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InferenceGymError
from inferencegym.registry import SERVING
from server.bound import BoundEnv
from server.openenv.adapter import SPLIT, RegistryEnvironment, make_environment
from server.openenv.routes import openenv_routes
from server.operations.settings import Settings
from server.services import Services
from tests.live import ROOT
from tests.server.toy_env import SPEC as TOY


def test_validate_url_passes(url: str, mount: str) -> None:
    command = [sys.executable, "-m", "openenv.cli", "validate", "--url", f"{url}{mount}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"] is True
    assert report["mode"] == "simulation"
    assert report["summary"]["failed_criteria"] == []


def toy_plan() -> RuntimePlan:
    return RuntimePlan.model_validate(
        {
            "plan_schema_version": "1",
            "reset": {"episode_id": "toy", "seed": 3, "options": {"task_id": "windy"}},
            "actions": [{"force": 0.5}, {}, {"force": -1.0, "brake": True, "repeat": 3}],
        }
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the collector, about its WebSocket library
@pytest.mark.parametrize(
    "grader", [RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()]
)
def test_runtime_graders_pass(url: str, mount: str, grader: Any) -> None:
    manifest = OpenEnvYamlParser().parse(ROOT)
    plan = toy_plan() if mount else load_runtime_plan(ROOT, manifest.execution)
    evidence = collect_runtime_evidence(f"{url}{mount}", plan, episode_timeout_s=30)
    assert evidence.failure_reason is None
    assert len(evidence.exchanges) == 2 + 2 * len(plan.actions)
    result = grader.run(SimpleNamespace(manifest=manifest, runtime_evidence=evidence))
    assert result.status.value == "pass", result.evidence


async def test_schema_and_metadata(client: httpx.AsyncClient, mount: str) -> None:
    schema = (await client.get(f"{mount}/schema")).json()
    assert set(schema) == {"action", "observation", "reset_observation", "state"}
    fields = schema["observation"]["properties"]
    assert {"reward", "done", "terminated", "truncated", "info"} <= set(fields)
    own = (TOY if mount else SERVING).part("observation_model").model_json_schema()["properties"]
    assert {name: fields[name] for name in own} == own
    assert {"episode_id", "step_count", "seed", "task_id"} <= set(schema["state"]["properties"])
    metadata = (await client.get(f"{mount}/metadata")).json()
    assert metadata["name"] == (TOY if mount else SERVING).id
    assert metadata["description"]
    assert metadata["version"]
    assert metadata["author"] == "The InferenceGym authors"
    assert metadata["readme_content"].startswith("# InferenceGym")
    assert (await client.get(metadata["documentation_url"])).status_code == 200


async def test_task_api(client: httpx.AsyncClient, mount: str) -> None:
    name = "toy" if mount else "serving"
    tasks = (await client.get(f"{mount}/tasks")).json()["tasks"]
    assert (await client.get(f"{mount}/list_environments")).json() == [name]
    assert (await client.get(f"{mount}/{name}/splits")).json() == [{"name": SPLIT, "type": "train"}]
    body: dict[str, Any] = {"split": SPLIT}
    assert (await client.post(f"{mount}/{name}/tasks", json=body)).json()["tasks"] == tasks
    assert (await client.post(f"{mount}/{name}/num_tasks", json=body)).json() == {"num_tasks": len(tasks)}
    assert (await client.post(f"{mount}/{name}/task", json=body | {"index": 1})).json() == {"task": tasks[1]}
    some = await client.post(f"{mount}/{name}/task_range", json=body | {"start": 0, "stop": 1})
    assert some.json() == {"tasks": tasks[:1]}


def test_openenvs_own_housekeeping_is_started_with_the_server() -> None:
    taken = openenv_routes(BoundEnv(TOY), Services(Settings()))
    assert len(taken.on_startup) == len(taken.on_shutdown) == 1
    paths = {getattr(route, "path", "") for route in taken.routes}
    assert {"/ws", "/mcp", "/schema", "/metadata"} <= paths
    assert not {"/reset", "/step", "/state", "/health"} & paths


@pytest.fixture(params=[SERVING, TOY], ids=["serving", "toy"])
def environment(request: pytest.FixtureRequest) -> RegistryEnvironment:
    return make_environment(BoundEnv(request.param))()


def action_of(environment: RegistryEnvironment, **fields: Any) -> Any:
    return environment.models.action.model_validate(fields)


def test_the_adapter_is_an_openenv_environment(environment: RegistryEnvironment) -> None:
    assert isinstance(environment, Environment)
    assert environment.SUPPORTS_CONCURRENT_SESSIONS
    assert environment.get_metadata().name == environment.bound.spec.id


def test_seed_task_and_episode_id_are_honoured(environment: RegistryEnvironment) -> None:
    tasks = environment.list_tasks(SPLIT)
    first = environment.reset(seed=5, episode_id="mine", task_id=tasks[1]["id"])
    assert (first.reward, first.done) == (None, False)
    state: Any = environment.state
    assert (state.episode_id, state.seed, state.task_id, state.step_count) == ("mine", 5, tasks[1]["id"], 0)
    again = environment.reset(seed=5, split=SPLIT, index=1)
    assert again.model_dump(exclude={"info"}) == first.model_dump(exclude={"info"})


async def test_the_async_calls_are_the_sync_ones(environment: RegistryEnvironment) -> None:
    other = type(environment)()
    assert (await other.reset_async(seed=1, episode_id="x")) == environment.reset(seed=1, episode_id="x")
    assert (await other.step_async(action_of(other))) == environment.step(action_of(environment))


def test_an_episode_ends_truncated_and_then_refuses(environment: RegistryEnvironment) -> None:
    with pytest.raises(EpisodeNotStartedError):
        environment.step(action_of(environment))
    with pytest.raises(EpisodeNotStartedError):
        _ = environment.state
    environment.reset()
    length = environment.list_tasks(SPLIT)[0]["episode_length"]
    observations: list[Any] = [environment.step(action_of(environment)) for _ in range(length)]
    assert [o.done for o in observations] == [False] * (length - 1) + [True]
    assert (observations[-1].truncated, observations[-1].terminated) == (True, False)
    with pytest.raises(EpisodeDoneError):
        environment.step(action_of(environment))


def test_a_refused_reset_leaves_the_episode_as_it_was(environment: RegistryEnvironment) -> None:
    environment.reset(seed=2, episode_id="kept")
    environment.step(action_of(environment))
    for bad in (
        {"seed": -1},
        {"task_id": "nope"},
        {"index": 99},
        {"index": True},
        {"split": "x"},
        {"knob": 1},
    ):
        with pytest.raises(InferenceGymError):
            environment.reset(**bad)  # type: ignore[arg-type]
    state: Any = environment.state
    assert (state.episode_id, state.step_count) == ("kept", 1)


@pytest.mark.parametrize("with_hook", [False, True])
def test_the_rubric_tree_names_each_term_of_the_reward(
    environment: RegistryEnvironment, with_hook: bool
) -> None:
    calls: list[float] = []
    rubric = environment.rubric
    assert rubric is not None
    terms = dict(rubric.named_rubrics())
    if with_hook:
        next(iter(terms.values())).register_forward_hook(lambda *found: calls.append(found[-1]))
    environment.reset()
    observation: Any = environment.step(action_of(environment))
    scores = {name: term.last_score for name, term in terms.items()}
    assert scores == observation.info["reward_terms"]
    assert rubric.last_score == observation.reward == pytest.approx(sum(scores.values()))
    assert calls == ([next(iter(scores.values()))] if with_hook else [])


def test_the_web_interface_gets_a_table_and_actions(environment: RegistryEnvironment) -> None:
    field = next(iter(environment.bound.observation_model.model_fields))
    observation = {"observation": {field: "<b>"}, "reward": 0.5, "done": False}
    drawn = environment.render_web(observation)
    assert drawn is not None
    assert f"<th>{field}</th><td>&lt;b&gt;</td>" in drawn
    assert "0.5" in drawn
    actions = environment.web_actions(observation)
    assert len({label for label, _ in actions}) == len(actions)
    for _, action in actions:
        environment.reset()
        environment.step(action_of(environment, **action))


def test_a_closed_environment_says_so(environment: RegistryEnvironment) -> None:
    environment.reset()
    environment.close()
    with pytest.raises(EpisodeNotStartedError, match="ended"):
        environment.reset()
