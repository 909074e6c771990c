"""The command-line tool: ``inferencegym serve | tasks | run | grade | compare | traces | market``.

Everything heavy is imported inside the commands, so that ``--help`` is quick and ``run --url`` needs no
simulator. Environments are known only through the registry.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from inferencegym.cli import traces
from inferencegym.cli.compare import compare
from inferencegym.cli.config import ConfigOption, config_of
from inferencegym.cli.market.commands import market_app
from inferencegym.cli.traces_import import import_traces
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from inferencegym.options import hyphened

__all__ = ["app", "main"]

EXIT_FAILED, EXIT_USAGE = 1, 2
SCORE_TOLERANCE = 1e-6
"""Scores further apart than this are different ones."""

app = typer.Typer(
    name="inferencegym",
    help="Environments for learning to run LLM inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": hyphened},
)
traces_app = typer.Typer(help="Trace packs: the measured timings behind the simulator.", no_args_is_help=True)
app.add_typer(traces_app, name="traces")
app.add_typer(market_app, name="market")

EnvOption = Annotated[str, typer.Option("--env", help="Environment: short name or id.")]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="Play on the server at this address instead of in this process.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON only.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from inferencegym import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(  # pyright: ignore[reportUnusedFunction]
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default from the settings.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; default 7860.")] = None,
) -> None:
    """Start the server. All its settings are environment variables; see the README."""
    import os

    from inferencegym.registry import load

    given = {"INFERENCEGYM_HOST": host, "INFERENCEGYM_PORT": port}
    os.environ.update({name: str(value) for name, value in given.items() if value is not None})
    load("server.app:main")()


@app.command()
def tasks(
    env: Annotated[str | None, typer.Option("--env", help="Only this environment.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List environments, their tasks and their agents."""
    from inferencegym.cli.show import show_tasks
    from inferencegym.registry import all_specs, get_spec

    show_tasks(all_specs() if env is None else (get_spec(env),), as_json)


@app.command()
def run(
    env: EnvOption = "serving",
    task: Annotated[str | None, typer.Option(help="Task id; default the first.")] = None,
    agent: Annotated[
        str, typer.Option(help="Agent that plays; `inferencegym tasks` lists them.")
    ] = "baseline",
    seed: Annotated[int, typer.Option(help="Seed of the episode and of the agent.")] = 42,
    config: ConfigOption = None,
    url: UrlOption = None,
    out: Annotated[Path | None, typer.Option(help="Save the episode's log as JSON.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Play one episode with a named agent; print its score and breakdown."""
    from agents.compare.output_files import check_writable
    from inferencegym.cli.files import save_episode
    from inferencegym.cli.play import play
    from inferencegym.cli.show import progress, show_episode
    from inferencegym.registry import get_spec

    if out is not None:
        check_writable("--out", out)
    with progress(enabled=not as_json) as on_step:
        episode = play(get_spec(env), task, agent, seed, url, on_step, config_of(config))
    show_episode(episode, as_json)
    if out is not None:
        save_episode(out, episode)


@app.command()
def grade(
    file: Annotated[Path, typer.Argument(help="Log or replay, JSON: see the README.", dir_okay=False)],
    env: Annotated[
        str | None, typer.Option("--env", help="Environment; default the file's, else serving.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task of a log that does not name its own.")] = None,
    replay: Annotated[
        bool, typer.Option(help="Play the log's actions again instead of believing it.")
    ] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade a saved episode: a log, or {task_id, seed, actions} to be played again."""
    from inferencegym.cli.files import LogRecord, load_record
    from inferencegym.cli.play import env_of, grade_record
    from inferencegym.cli.show import show_grade

    record = load_record(file, task)
    if replay and isinstance(record, LogRecord):
        record = record.as_replay()
    result = grade_record(env_of(record, env), record, url)
    show_grade(result, as_json)
    if record.score is not None and abs(record.score - result.score) > SCORE_TOLERANCE:
        typer.secho(
            f"The file says that this scored {record.score:.4f}: its task, seed or steps are not those that "
            "were played, or they were played under other rules.",
            fg="yellow",
            err=True,
        )


app.command()(compare)


for _name, _command in {
    "list": traces.list_packs,
    "info": traces.show_pack,
    "build": traces.build_pack,
    "validate": traces.validate_pack,
    "plot": traces.plot_pack,
}.items():
    traces_app.command(_name)(_command)


traces_app.command("import")(import_traces)


def main() -> None:
    """Entry point. Known errors are printed plainly: exit code 2 for a wrong name or value, else 1."""
    try:
        app()
    except InferenceGymError as error:
        typer.echo(f"{typer.style('error:', fg='red', bold=True)} {error}", err=True)
        sys.exit(EXIT_USAGE if isinstance(error, UnknownNameError | InvalidValueError) else EXIT_FAILED)
    except OSError as error:  # a disk that is full, a file that went away
        typer.echo(f"{typer.style('error:', fg='red', bold=True)} {error}", err=True)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
