"""``python -m agents.autoscaling_static``: the name by which documents and results know
:mod:`agents.studies.autoscaling_static`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("agents.studies.autoscaling_static", run_name="__main__", alter_sys=True)
