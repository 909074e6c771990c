"""``python -m simulator.data.build_traces``: the name by which documents and results know
:mod:`simulator.packs.building.build_traces`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("simulator.packs.building.build_traces", run_name="__main__", alter_sys=True)
