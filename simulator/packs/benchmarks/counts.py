"""How many requests and tokens a result of ``vllm bench serve`` or SGLang is about, by every field that says
so.

vLLM counts ``failed`` since version 0.11, before only ``num_prompts`` tells of failures; SGLang counts none
at all. With details (``--save-detailed``, ``--output-details``) there is a list entry a request: its
lengths, where 0 output tokens is a failure or an empty answer, and its error, empty for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from simulator.kernels.sums import ordered_sum
from simulator.packs.benchmarks.doubts import apart, reported_errors
from simulator.packs.benchmarks.record import MAX_TOKENS, Record

__all__ = ["Counts", "counts_of"]

_TOKENS = (
    ("total_output_tokens", "total_output_tokens_retokenized", "output_lens"),
    ("total_input_tokens", "total_input_tokens_retokenized", "input_lens"),
)
"""Fields that count the same tokens: a total, that of the text put through the tokenizer again, a list."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests of a run.

    Attributes:
        sent: all.
        completed: that the tool calls so.
        answered: of these, those with an answer that is not empty.
        failed_by: the field that tells of most failures, with their number.
        contradiction: what disagrees, or nothing.
    """

    sent: float
    completed: float
    answered: float
    failed_by: str
    contradiction: str

    @property
    def failed_share(self) -> float:
        """Share of requests without an answer."""
        return 1.0 - self.answered / self.sent


def counts_of(result: Record) -> Counts:
    """Count. Raises ``InvalidValueError`` for a value that cannot be, an entry of a list included."""
    lengths = {name: _lengths(result, name) for name in ("input_lens", "output_lens")}
    inputs, outputs = lengths["input_lens"], lengths["output_lens"]
    if inputs is not None and outputs is not None and len(inputs) != len(outputs):
        result.refuse("output_lens", f"a list as long as input_lens, {len(inputs)}, not {len(outputs)}")
    completed = result.number("completed", above=False)
    missing = {
        "failed": result.optional("failed", above=False) or 0.0,
        "num_prompts - completed": (result.optional("num_prompts") or completed) - completed,
        "errors": reported_errors(result, "errors"),
        "error_summary": reported_errors(result),
    }
    field, failed = max(missing.items(), key=lambda entry: entry[1])
    zeros = float((outputs or []).count(0.0))
    in_list = failed if outputs is not None and len(outputs) > completed else 0.0
    empty = min(max(0.0, zeros - in_list), completed)
    told = [f"{field} {failed:g}"] if failed > 0.0 else []
    told += [f"output_lens has {empty:g} empty answers"] if empty else []
    return Counts(
        sent=max(completed + failed, 1.0),
        completed=completed,
        answered=completed - empty,
        failed_by=", ".join(told),
        contradiction=_contradiction(result, missing, lengths),
    )


def _contradiction(result: Record, missing: dict[str, float], lengths: dict[str, list[float] | None]) -> str:
    if missing["num_prompts - completed"] < 0.0:
        completed, prompts = result.number("completed"), result.number("num_prompts")
        return f"completed {completed:g} is more than num_prompts {prompts:g}: it is not of one run"
    for total, retokenized, listed in _TOKENS:
        counted = result.number(total, above=False)
        others = {retokenized: result.optional(retokenized, above=False)}
        if lengths[listed] is not None and (listed == "output_lens" or max(missing.values()) <= 0.0):
            others[f"the sum of {listed}"] = ordered_sum(
                lengths[listed] or []
            )  # inputs: those of failed requests too
        for name, other in others.items():
            if other is not None and apart(counted, other):
                return (
                    f"{total} is {counted:g}, {name} {other:g}: answers that ended early are counted in "
                    "full, or tokens are counted wrongly, and so is the time per token"
                )
    return ""


def _lengths(result: Record, name: str) -> list[float] | None:
    """A list of lengths in tokens, or None where there is none."""
    values = result.values.get(name)
    if values is None:
        return None
    if not isinstance(values, list):
        result.refuse(name, "a list of lengths, one a request")
    entries = cast("list[Any]", values)
    record = Record(result.place, result.noun, {f"{name}[{i}]": entry for i, entry in enumerate(entries)})
    return [record.number(key, high=MAX_TOKENS, above=False) for key in record.values]
