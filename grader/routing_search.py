"""``python -m grader.routing_search``: the name by which documents and results know
:mod:`grader.routing.search`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("grader.routing.search", run_name="__main__", alter_sys=True)
