"""Which communication a row says runs next to computation."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.specs.plan import Overlap
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.loose_values import mapping, switch, unstated, words
from windtunnel.validation.rows.parsing.pattern_tables import matches, table

_CLAUSES = re.compile(r"[,;+&\n]|\band\b")


def read_overlap(ctx: Context) -> Overlap:
    """Switches that the row names; the others stay with the framework's default."""
    raw = ctx.fields.get("overlap")
    found: dict[str, bool] = {}
    if isinstance(raw, dict):
        for key, value in mapping(raw).items():
            state = switch(value)
            for name in _switches(words(key).replace("_", " ")):
                found[name] = True if state is None else state
    elif isinstance(raw, bool):
        found = dict.fromkeys(("grad_reduce", "param_gather", "tp", "p2p", "moe_a2a"), raw)
    elif not unstated(raw) or words(raw).startswith("none"):
        text = words(raw)
        if text and matches(table("plan")["overlap_all_off"], text):
            found = dict.fromkeys(("grad_reduce", "param_gather", "tp", "p2p", "moe_a2a"), False)
        else:
            for clause in _CLAUSES.split(text):
                if matches(table("plan")["keep"], clause):
                    continue
                state = not matches(table("plan")["negative"], clause)
                for name in _switches(clause):
                    found[name] = state
    _recipe(ctx, found)
    if found.get("grad_reduce") is False:  # Megatron overlaps the gather only together with the reduction
        found.setdefault("param_gather", False)
    if "torchtitan" in ctx.framework:
        found.setdefault("tp", False)
    return Overlap.model_validate(found)


def _recipe(ctx: Context, found: dict[str, bool]) -> None:
    """Flags that stand in the recipe next to the row."""
    for key, value in ctx.extra.items():
        state = switch(value)
        name = key.lower()
        if state is None or "overlap" not in name:
            continue
        for switched in _switches(name.replace("_", " ")):
            found[switched] = state


def _switches(clause: str) -> tuple[str, ...]:
    for pattern, names in table("plan")["overlap"]:
        if matches(pattern, clause):
            return tuple(names)
    return ()


def shown(overlap: Overlap) -> dict[str, Any]:
    """The switches that are set."""
    return overlap.model_dump(exclude_none=True)
