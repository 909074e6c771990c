"""Import OpenEnv's server without its web interface, which this server does not use.

That interface imports gradio, which takes longer than everything else together and 120 MB. OpenEnv treats
it as optional (it catches the ModuleNotFoundError), so it is enough to make gradio look absent meanwhile.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, cast

__all__ = ["import_openenv"]


def import_openenv() -> None:
    """Import ``openenv.core`` unless it, or gradio, is loaded already. Afterwards gradio can be imported."""
    if "openenv.core" in sys.modules or "gradio" in sys.modules:
        return
    modules = cast("dict[str, Any]", sys.modules)
    modules["gradio"] = None  # Python's way to say that a module does not exist
    try:
        import_module("openenv.core")
    finally:
        del modules["gradio"]
