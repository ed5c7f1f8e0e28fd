"""Guided search: three insights about tasks of several stages as rules, in place of a language model that is told them.

1. A stage has a model that suits it: models are compared at equal cost, that of one sample of the largest, and the
   smallest model that is not clearly worse is kept.
2. More samples help and then no more: numbers of samples are climbed from an even split of the budget, one place at a
   time, as long as it gets better.
3. Stages share the budget: where one place more does not fit, another stage gives places up for it.

When climbing ends, models of the best choice are changed one by one, and climbing begins again there.

Source: Wang et al. 2025, AgentTTS (arXiv 2508.00890), insights 1 to 3 and section 4; the order of trials is ours.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from numpy.random import Generator as Random

from windtunnel_lab.models.programs.stage_searches import STAGE_SEARCHES, StageSearch, Trials
from windtunnel_lab.models.programs.stage_table import Stage, StageTable

CLEARLY = 0.03
"""By how much a model must be better to be preferred to a smaller one."""
Choice = tuple[tuple[int, int], ...]


class _Search:
    """Choices that were measured, and where they are in the table."""

    def __init__(self, table: StageTable) -> None:
        self.table, self.known = table, table.index()
        self.scores: dict[Choice, float] = {}

    def measure(self, choice: Choice) -> Generator[int, float, float]:
        """The score of a choice, measured once; below every other one where the budget does not allow it."""
        if choice not in self.known:
            return -1.0
        if choice not in self.scores:
            self.scores[choice] = yield self.known[choice]
        return self.scores[choice]

    def climb(self, start: Choice) -> Generator[int, float, Choice]:
        """The best choice that steps in numbers of samples lead to."""
        best, score = start, (yield from self.measure(start))
        while True:
            for other in self.neighbours(best):
                found = yield from self.measure(other)
                if found > score:
                    best, score = other, found
                    break
            else:
                return best

    def neighbours(self, choice: Choice) -> Iterator[Choice]:
        """One place more for each stage, at another stage's cost where it does not fit, then one place less."""
        stages = self.table.stages
        for s, (model, place) in enumerate(choice):
            if place + 1 < len(stages[s].samples):
                more = _with(choice, s, (model, place + 1))
                if more in self.known:
                    yield more
                else:
                    yield from self._paid_by_others(more, s)
        for s, (model, place) in enumerate(choice):
            if place > 0:
                yield _with(choice, s, (model, place - 1))

    def _paid_by_others(self, choice: Choice, asking: int) -> Iterator[Choice]:
        for s, (model, place) in enumerate(choice):
            if s == asking:
                continue
            for less in range(place - 1, -1, -1):
                own = _with(choice, s, (model, less))
                if own in self.known:
                    yield own
                    break


def run(table: StageTable, random: Random) -> Trials:
    """Models, then samples and budgets, then other models."""
    search = _Search(table)
    models = yield from _models(search)
    best = yield from search.climb(_split(table, models))
    score = search.scores.get(best, -1.0)
    while True:
        others = [
            tuple(m if t == s else own for t, (own, _) in enumerate(best))
            for s, stage in enumerate(table.stages)
            for m in range(len(stage.models))
            if m != best[s][0]
        ]
        for at in random.permutation(len(others)):
            found = yield from search.climb(_split(table, others[at]))
            if search.scores.get(found, -1.0) > score:
                best, score = found, search.scores[found]
                break
        else:
            return


def _models(search: _Search) -> Generator[int, float, tuple[int, ...]]:
    """A model for each stage, compared at the cost of one sample of its largest."""
    stages, chosen = search.table.stages, []
    largest: Choice = tuple((len(stage.models) - 1, 0) for stage in stages)
    others = largest if largest in search.known else tuple((0, 0) for _ in stages)
    for s, stage in enumerate(stages):
        unit = float(stage.cost[-1, 0])
        scores = []
        for m in range(len(stage.models)):
            scores.append((yield from search.measure(_with(others, s, (m, _most(stage, m, unit))))))
        chosen.append(next(m for m, own in enumerate(scores) if own >= max(scores) - CLEARLY))
    return tuple(chosen)


def _split(table: StageTable, models: tuple[int, ...]) -> Choice:
    """The budget divided evenly among stages."""
    even = table.budget / len(table.stages)
    return tuple((m, _most(stage, m, even)) for m, stage in zip(models, table.stages, strict=True))


def _most(stage: Stage, model: int, cost: float) -> int:
    """Place of the most samples of a model that a cost allows; the first where none is."""
    able = [n for n in range(len(stage.samples)) if stage.cost[model, n] <= cost * (1 + 1e-12)]
    return max(able, default=0)


def _with(choice: Choice, stage: int, own: tuple[int, int]) -> Choice:
    return (*choice[:stage], own, *choice[stage + 1 :])


STAGE_SEARCHES.add(
    "guided",
    StageSearch(id="guided", summary="models at equal cost, then samples, then budgets between stages", run=run),
)
