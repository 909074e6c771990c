"""Names, numbers and units of the models as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from annotated_types import Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["fixed", "in_words", "name_and_unit", "number", "shares", "signed", "titled"]

_SPELT = {
    "co2": "CO₂",
    "cpu": "CPU",
    "gpu": "GPU",
    "gpus": "GPUs",
    "kb": "knowledge base",
    "kv": "KV",
    "oom": "out of memory",
    "slo": "SLO",
    "tpot": "TPOT",
    "ttft": "TTFT",
}
_UNITS = {
    "ms": "ms",
    "s": "s",
    "h": "h",
    "gb": "GiB",
    "rps": "requests/s",
    "wh": "Wh",
    "g": "g",
    "usd": "USD",
}
"""Units by the end of a field's name. Memory is in GiB throughout."""

_MOST_ITEMS = 6


def titled(name: str) -> str:
    """A field's name as a label: ``kv_budget`` is ``KV budget``."""
    words = " ".join(_SPELT.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


def name_and_unit(name: str) -> tuple[str, str]:
    """Label and unit: ``ttft_p50_ms`` is ``TTFT p50`` in ``ms``."""
    words, _, last = name.rpartition("_")
    return (titled(words), _UNITS[last]) if words and last in _UNITS else (titled(name), "")


def number(value: float) -> str:
    """About four significant digits, without an exponent."""
    value = value or 0  # zero has no sign
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}".replace("-", "−")
    text = f"{value:.4g}"
    return (f"{value:.6f}".rstrip("0").rstrip(".") if "e" in text else text).replace("-", "−")


def fixed(value: float, digits: int) -> str:
    """A number with so many decimals."""
    return f"{value:,.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 3) -> str:
    """A number whose sign is always there, but for what is shown as zero."""
    text = fixed(abs(value), digits)
    return f"{'−' if value < 0 else '+'}{text}" if text.strip("0.,") else text


def shares(field: FieldInfo) -> bool:
    """Whether a number is shown in per cent: it lies in [0, 1] and its own description calls it a share."""
    highest = [bound.le for bound in field.metadata if isinstance(bound, Le)]
    return "share" in (field.description or "").lower() and highest in ([], [1.0])


def in_words(value: Any, unit: str = "", *, share: bool = False) -> str:
    """Any value of an observation as text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if share:
            return f"{number(100 * float(value))} %"
        return f"{number(value)} {unit}".strip()
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        parts = cast("Mapping[str, Any]", value).items()
        return (
            ", ".join(f"{titled(key).lower()} {in_words(each, share=share)}" for key, each in parts) or "none"
        )
    if isinstance(value, (list, tuple)):
        return _listed([in_words(each) for each in cast("list[Any]", value)])
    return str(value)


def _listed(items: list[str]) -> str:
    more = len(items) - _MOST_ITEMS
    shown = ", ".join(item.replace("_", " ") for item in items[:_MOST_ITEMS])
    return (f"{shown} and {more} more" if more > 0 else shown) or "none"
