"""Greedy search by stage: one stage's choices are tried while the others stay as they are, stage after stage.

It begins with the cheapest choice everywhere and goes round until a round changes nothing.
"""

from __future__ import annotations

from numpy.random import Generator

from windtunnel_lab.models.programs.stage_searches import STAGE_SEARCHES, StageSearch, Trials
from windtunnel_lab.models.programs.stage_table import StageTable


def run(table: StageTable, random: Generator) -> Trials:
    """Rounds over all stages."""
    known = table.index()
    best = tuple((int(m), int(n)) for m, n in table.choices[int(table.cost.argmin())])
    score = yield known[best]
    changed = True
    while changed:
        changed = False
        for s, stage in enumerate(table.stages):
            own = [(m, n) for m in range(len(stage.models)) for n in range(len(stage.samples))]
            for place in random.permutation(len(own)):
                other = (*best[:s], own[place], *best[s + 1 :])
                if other in known and other != best:
                    found = yield known[other]
                    if found > score:
                        best, score, changed = other, found, True


STAGE_SEARCHES.add(
    "by_stage", StageSearch(id="by_stage", summary="one stage at a time, the others as they are", run=run)
)
