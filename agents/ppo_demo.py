"""``python -m agents.ppo_demo``: the name by which documents and results know :mod:`agents.ppo.demo`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("agents.ppo.demo", run_name="__main__", alter_sys=True)
