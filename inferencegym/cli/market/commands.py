"""``inferencegym market``: evolve pricing policies, trace and compare episodes, make and verify claims."""

from __future__ import annotations

import typer

from inferencegym.cli.market.episodes import claim, duel, trace, verify
from inferencegym.cli.market.training import newest, scenarios, sweep, train_ga

__all__ = ["market_app"]

market_app = typer.Typer(
    help="The market of GPU capacity: evolve, trace, compare, claim, verify.", no_args_is_help=True
)
for _name, _command in (
    ("scenarios", scenarios),
    ("train-ga", train_ga),
    ("sweep", sweep),
    ("newest", newest),
    ("trace", trace),
    ("duel", duel),
    ("claim", claim),
    ("verify", verify),
):
    market_app.command(_name)(_command)
