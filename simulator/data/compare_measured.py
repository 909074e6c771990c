"""``python -m simulator.data.compare_measured``: the name by which documents and results know
:mod:`simulator.packs.building.compare_measured`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("simulator.packs.building.compare_measured", run_name="__main__", alter_sys=True)
