"""Knobs that algorithms share, and what their parts need of each other.

Combinations are refused by declared needs, one line each: a compressor whose encodings do not add cannot go through an
all-reduce, one that leaves something out needs feedback, and feedback needs every worker in every round.
"""

from __future__ import annotations

from typing import Any, cast

from windtunnel.errors import ProblemList, attempt
from windtunnel.learning.compose import GradientExchange, ParameterExchange, Via, is_plain
from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.techniques.knobs import Knob, named, names_a_part, with_defaults

PERIOD = Knob(100, 1, 1_000_000, "H: local steps of a round")
OUTER_LR = Knob(0.7, 0.0, 10.0, "outer learning rate")
OUTER_MOMENTUM = Knob(0.9, 0.0, 0.999999, "outer momentum")


def wire_knobs(compressor: Any = None, feedback: float = 0.0, bits: int = 32) -> dict[str, Knob]:
    """Knobs of what is sent.

    Args:
        compressor: Default: an id, an id with knobs, or None: values in `bits` each.
        feedback: Default share of what a message leaves out that is added to the next one.
        bits: Default bits of a value where there is no compressor.
    """
    return {
        "bits": Knob(bits, choices=(16, 32, 64), doc="bits of a value where no compressor is named"),
        "compressor": Knob(compressor, doc="id of a compressor, or {id: {knob: value}}"),
        "feedback": Knob(feedback, 0.0, 1.0, "share of what a message leaves out that is added to the next one"),
        "via": Knob(
            "auto",
            choices=("auto", "all_reduce", "all_gather", "ring"),
            doc="collective; auto: all_reduce where encodings add, else all_gather; ring: encoded anew at every hop",
        ),
        "may_stall": Knob(False, doc="run a compressor that needs feedback without it, to see that training stalls"),
    }


def problems_of(id: str) -> ProblemList:
    """A list of problems with the knobs of an algorithm."""
    return ProblemList(prefix=f"learning.algorithms.{id}")


def compressor_of(knobs: dict[str, Any], problems: ProblemList, field: str = "compressor") -> Compressor:
    """The compressor that knobs name; values as they are where they name none, or none that there is."""
    value = knobs.get(field)
    plain = Cast(int(knobs.get("bits", 32)))
    if value is None:
        return plain
    if not names_a_part(value):
        problems.add(field, value, "must be the id of a compressor, or {id: {knob: value}}")
        return plain
    name, given = named(value)
    kind = attempt(field, lambda: COMPRESSORS.get(name, field), problems)
    if kind is None:
        return plain
    before = len(problems)
    settled = with_defaults(kind.knobs, given, f"{field}.{name}", problems)
    if len(problems) > before:
        return plain
    return cast(Compressor, attempt(f"{field}.{name}", lambda: kind.build(settled), problems) or plain)


def via_of(knobs: dict[str, Any]) -> Via | None:
    """The collective that knobs name; None where the compressor decides."""
    value = knobs["via"]
    return None if value == "auto" else cast(Via, value)


def check_exchange(
    exchange: GradientExchange | ParameterExchange, problems: ProblemList, may_stall: bool = False
) -> None:
    """Refuse what does not go together in an exchange.

    Args:
        exchange: Compressor, feedback and collective.
        problems: What is wrong goes here.
        may_stall: Whether a compressor that needs feedback may go without it.
    """
    wire, via = exchange.compressor, exchange.via
    if via == "all_reduce" and not wire.linear:
        rule = f"adds encodings on their way, and those of compressor {wire.id} do not add; allowed: auto, all_gather"
        problems.add("via", via, f"{rule}, ring")
    if wire.needs_feedback and not exchange.feedback and not may_stall:
        rule = f"compressor {wire.id} never sends what it leaves out, and training stalls; allowed: above 0, up to 1"
        problems.add("feedback", exchange.feedback, rule)
    if via == "ring" and exchange.feedback and not is_plain(wire):
        problems.add("feedback", exchange.feedback, "no worker knows what a ring loses over its hops; allowed: 0")
    if isinstance(exchange, GradientExchange):
        return
    if exchange.who is not None and exchange.feedback and not is_plain(wire):
        rule = "a client that is sampled now and then would send errors of long ago; allowed: 0 with sampled clients"
        problems.add("feedback", exchange.feedback, rule)
    if via == "ring" and (exchange.drop or exchange.who is not None):
        problems.add("via", via, "needs every worker in every round; allowed: auto, all_gather, all_reduce")


def check_fragments(exchange: ParameterExchange, job: Job, problems: ProblemList) -> None:
    """Refuse fragments and delays that a round has no place for."""
    tensors, period = len(job.shapes), exchange.period
    if not isinstance(period, int):
        return
    if exchange.fragments > tensors:
        problems.add(
            "fragments", exchange.fragments, f"the task's model has {tensors} tensors; allowed: 1 to {tensors}"
        )
    if exchange.fragments > period:
        problems.add("fragments", exchange.fragments, f"are sent in turn in a round; allowed: 1 to {period} (period)")
    if exchange.late > period:
        problems.add("late", exchange.late, f"a round has {period} local steps; allowed: 0 to {period} (period)")


def check_states(names: tuple[str, ...], job: Job, problems: ProblemList) -> None:
    """Refuse inner optimizers that lack states which an algorithm averages."""
    missing = [name for name in names if name not in job.inner.states]
    if missing:
        have = ", ".join(job.inner.states) or "none"
        inner = type(job.inner).__name__.lower()
        rule = f"inner optimizer {inner} has no {' and '.join(missing)} to average (it has {have}); allowed: adamw"
        problems.add("", inner, rule)
