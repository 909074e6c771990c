"""``python -m agents.reference_ranking``: the name by which documents and results know
:mod:`agents.studies.reference_ranking`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("agents.studies.reference_ranking", run_name="__main__", alter_sys=True)
