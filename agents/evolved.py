"""``python -m agents.evolved``: the name by which documents and results know
:mod:`agents.serving.evolved`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("agents.serving.evolved", run_name="__main__", alter_sys=True)
