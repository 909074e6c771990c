"""``python -m simulator.fidelity_report``: the name by which documents and results know
:mod:`simulator.reference.fidelity_report`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("simulator.reference.fidelity_report", run_name="__main__", alter_sys=True)
