"""``python -m simulator.data.check_import``: the name by which documents and results know
:mod:`simulator.packs.importing.check_import`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("simulator.packs.importing.check_import", run_name="__main__", alter_sys=True)
