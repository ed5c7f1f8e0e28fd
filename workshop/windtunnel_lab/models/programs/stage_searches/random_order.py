"""Random search: every choice once, in random order."""

from __future__ import annotations

from numpy.random import Generator

from windtunnel_lab.models.programs.stage_searches import STAGE_SEARCHES, StageSearch, Trials
from windtunnel_lab.models.programs.stage_table import StageTable


def run(table: StageTable, random: Generator) -> Trials:
    """All choices."""
    for place in random.permutation(len(table.accuracy)):
        yield int(place)


STAGE_SEARCHES.add("random", StageSearch(id="random", summary="choices in random order", run=run))
