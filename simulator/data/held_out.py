"""``python -m simulator.data.held_out``: the name by which documents and results know
:mod:`simulator.packs.building.held_out`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("simulator.packs.building.held_out", run_name="__main__", alter_sys=True)
