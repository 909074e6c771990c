"""Write the digests anew, after a change that says why they differ: ``python -m tests.golden.renew``."""

from __future__ import annotations

import json
import sys

from inferencegym.registry import all_specs
from tests.golden.episodes import FILE, Digests, from_server, in_process, tables
from tests.live import live_server


def main() -> None:
    """Play everything and write :data:`FILE`; prints what is new."""
    before: Digests = json.loads(FILE.read_text()) if FILE.exists() else {}
    with live_server() as url:
        found = {**from_server(url), **tables()}
    for spec in all_specs():
        found |= in_process(spec)
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    for name in sorted(found.keys() | before.keys()):
        if found.get(name) != before.get(name):
            sys.stdout.write(f"{name}: {before.get(name)} -> {found.get(name)}\n")


if __name__ == "__main__":
    main()
