"""``python -m agents.routing_frontier``: the name by which documents and results know
:mod:`agents.routing.frontier`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("agents.routing.frontier", run_name="__main__", alter_sys=True)
