"""``python -m agents.routing_waiting``: the name by which documents and results know
:mod:`agents.studies.routing_waiting`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("agents.studies.routing_waiting", run_name="__main__", alter_sys=True)
