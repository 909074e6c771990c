"""``python -m agents.market_bench``: the name by which documents and results know
:mod:`agents.market.bench`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("agents.market.bench", run_name="__main__", alter_sys=True)
