"""Anchors of the grades for any trace pack: committed for the shipped ones, measured once for others.

A pack of the operator is measured the first time that something is graded on it (seconds a task), and the
result is kept in this process and, where the folder can be written, beside the pack as ``NAME.anchors.json``
together with a digest of the pack, so that a changed pack is measured again.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from env.serving.tasks import calibrated, get_task
from grader.serving.calibrate import quick_anchors, task_anchors
from grader.serving.scoring import Anchors
from inferencegym.models.serving import EngineTiming
from simulator.packs.on_offer import pack_path
from simulator.packs.trace_table import load_trace_table
from simulator.packs.whole_file import write_whole

__all__ = ["anchors_of", "measured_of"]

_lock = threading.Lock()


def anchors_of(pack: str, task_id: str, timing: EngineTiming | None = None) -> Anchors:
    """What scores 0 and 1 with a trace pack and an engine timing (None: the task's own).

    Raises UnknownNameError for a pack that is not there.
    """
    measured = measured_of(pack, task_id, timing)
    return task_anchors(task_id, measured["floor_tokens_per_s"], measured["optimum_tokens_per_s"], pack)


def measured_of(pack: str, task_id: str, timing: EngineTiming | None = None) -> dict[str, Any]:
    """Floor, optimum and highest tokens/s and the baseline's score."""
    timing = timing or get_task(task_id).engine_timing
    committed = calibrated(pack, task_id, timing)
    if committed is not None:
        return committed
    with _lock:  # two gradings must not measure the same pack at once
        return _measured(pack, pack_path(pack), task_id, timing)


@cache
def _measured(pack: str, path: Path, task_id: str, timing: EngineTiming) -> dict[str, Any]:
    # Of the pack that is played here, not of what may lie in its place by now.
    digest = load_trace_table(path).sha256
    kept = path.with_suffix(".anchors.json")
    document = _read(kept)
    tasks: dict[str, Any] = document.get("tasks", {}) if document.get("sha256") == digest else {}
    key = task_id if timing == "additive" else f"{task_id} {timing}"
    if key not in tasks:
        tasks[key] = quick_anchors(task_id, pack, timing)
        _write(
            kept,
            {"sha256": digest, "made_by": "a quick sweep, see grader/serving/calibrate.py", "tasks": tasks},
        )
    return tasks[key]


def _read(path: Path) -> dict[str, Any]:
    """What was kept; nothing if that is no such document."""
    try:
        document: Any = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _write(path: Path, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1) + "\n"
    with suppress(OSError):  # a folder that only others may write: measured again by the next process
        write_whole(path, lambda beside: beside.write_text(text))
