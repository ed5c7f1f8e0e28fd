"""Axes whose sizes techniques set: the search takes them at those sizes, whatever its space lists.

A technique that cuts operators over eight ranks does so in every plan of a search. Candidates are laid out anew with
the sizes that it sets, so that replicas and micro-batches follow, and plans are shown as they run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windtunnel.errors import BadInput
from windtunnel.planner.case import Case
from windtunnel.planner.space.candidates import Candidates, enumerate_candidates
from windtunnel.planner.space.technique_rewrites import Decided, became, rewriting
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.search import SearchSpec

AXES = ("tp", "pp", "cp")
"""Axes that decide how many replicas are left."""
_ROUNDS = 3
"""How often sizes may follow from others that a technique has set."""


def candidates_under_techniques(case: Case, plan: PlanSpec, wanted: SearchSpec) -> Candidates:
    """All candidates of a search on one cluster, with the sizes that techniques set."""
    x = enumerate_candidates(case.model, case.cluster, case.training, plan, wanted, case.behaviour, case.can)
    if not rewriting(case.techniques):
        return x
    told: dict[str, int] = {}
    fixed: dict[str, set[int]] = {}
    names: dict[str, None] = {}
    for _ in range(_ROUNDS):
        found, number, ids = sizes_set(case, x)
        names |= dict.fromkeys(ids)
        more = {name: values for name, values in found.items() if not values <= fixed.get(name, set())}
        if not more:
            break
        fixed |= {name: values | fixed.get(name, set()) for name, values in more.items()}
        space = wanted.space.model_copy(update={name: tuple(sorted(values)) for name, values in fixed.items()})
        anew = wanted.model_copy(update={"space": space})
        words = " · ".join(f"{name} {' or '.join(map(str, sorted(values)))}" for name, values in fixed.items())
        verb = "sets" if len(names) == 1 else "set"
        told = {f"{' and '.join(names)} {verb} {words}, whatever the space lists": number + sum(told.values())}
        x = enumerate_candidates(case.model, case.cluster, case.training, plan, anew, case.behaviour, case.can)
    return replace(x, excluded=told | x.excluded) if told else x


def sizes_set(case: Case, x: Candidates) -> tuple[dict[str, set[int]], int, list[str]]:
    """Axis → all sizes that candidates have after the techniques, of axes that these change.

    Also how many candidates they change, and which techniques change the first of them.
    """
    values: dict[str, set[int]] = {name: set() for name in AXES}
    changed: set[str] = set()
    number = 0
    names: list[str] = []
    decided: Decided = {}
    for i, j in np.argwhere(x.legal).tolist():
        try:
            plan = became(case, x, i, j, decided)
        except BadInput:
            continue
        if plan is None:
            continue
        others = [name for name in AXES if getattr(plan, name) != int(getattr(x, name)[i])]
        changed.update(others)
        number += bool(others)
        if others and not names:
            names = setters(case, x.plan(i, j))
        for name in AXES:
            values[name].add(int(getattr(plan, name)))
    return {name: values[name] for name in AXES if name in changed}, number, names


def setters(case: Case, plan: PlanSpec) -> list[str]:
    """Techniques that change sizes of a plan."""
    out = []
    for hook in ("decide", "plan"):
        for t in case.techniques:
            before = [getattr(plan, name) for name in AXES]
            decides = hook == "decide"
            plan = t.on_decision(plan, case.model, case.cluster, case.training) if decides else t.on_plan(plan)
            if [getattr(plan, name) for name in AXES] != before:
                out.append(t.technique.id)
    return list(dict.fromkeys(out))
