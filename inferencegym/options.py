"""Options of all commands and programs: ``--population_size`` is ``--population-size``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

__all__ = ["OptionParser", "hyphened"]


def hyphened(name: str) -> str:
    """The name of an option or command as this project spells it."""
    return name.replace("_", "-")


class OptionParser(ArgumentParser):
    """An argument parser that takes its options with underscores too."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Namespace, list[str]]:
        """See :class:`argparse.ArgumentParser`."""
        words = sys.argv[1:] if args is None else list(args)
        end = words.index("--") if "--" in words else len(words)
        return super().parse_known_args([*map(_spelt, words[:end]), *words[end:]], namespace)


def _spelt(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return f"{hyphened(name)}{equals}{value}"
