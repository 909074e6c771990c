"""``python -m simulator.data.fit_roofline``: the name by which documents and results know
:mod:`simulator.packs.building.fit_roofline`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("simulator.packs.building.fit_roofline", run_name="__main__", alter_sys=True)
