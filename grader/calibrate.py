"""``python -m grader.calibrate``: the name by which documents and results know
:mod:`grader.serving.calibrate`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("grader.serving.calibrate", run_name="__main__", alter_sys=True)
