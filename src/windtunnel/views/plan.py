"""What `windtunnel plan` shows of training: the best plan, which one to take, what came next and why, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.planner.objectives import METRICS
from windtunnel.quantities import count, gib, percent, quantity, seconds, signed_percent, three
from windtunnel.training.comparison import difference
from windtunnel.training.results.one_line import workload_line
from windtunnel.views import charts_plan as charts
from windtunnel.views.compare import waterfall
from windtunnel.views.plan_labels import (
    RESOURCES,
    best_row,
    best_words,
    cell_words,
    field_text,
    flat,
    metric_words,
    nodes_words,
    plan_words,
    scale_text,
    table_names,
)
from windtunnel.views.train import interval_text, memory_tile, next_facts, origin, scenario_section
from windtunnel.views.view import Drawing, Lines, Section, Text, Tile, View, Words, chart, dim, pairs, sections, table

if TYPE_CHECKING:
    from windtunnel.planner.analysis.explain_best import ClusterBest, LimitCost, Why
    from windtunnel.planner.analysis.recommend import Choice
    from windtunnel.planner.analysis.run_finalists import Finalist
    from windtunnel.planner.analysis.stability import Resource
    from windtunnel.planner.result import PlanResult, Ranked
    from windtunnel.training.results.training_result import TrainingResult

_FITS = {True: "yes", False: "no", None: "not asked"}


def view(result: PlanResult) -> View:
    """A search over training plans."""
    best, proof = result.best, result.proof
    goal = ", ".join(metric_words(name) for name in result.objectives)
    stopped = f"Stopped: this is the best so far; {gap_words(result)}"
    margin = margin_words(result)
    return View(
        title=best.scenario_name or "Plan",
        aside=f"{proof.candidates:,} plans, {proof.simulated:,} simulated, in {seconds(result.elapsed_s)}",
        lead=(workload_line(best), f"best {goal} of {proof.candidates:,} plans"),
        verdict=None if proof.complete else Text(stopped, "warn"),
        tiles=_tiles(result),
        facts=next_facts(best.measure_next),
        sections=sections(
            _front(result),
            _time_against_memory(result),
            _heat(result),
            _finalists(result),
            _plans("Simulated plans", sorted(result.frontier, key=_is_out), result),
            None if margin is None else Section("What free memory costs", (Lines((margin,)),)),
            *_why(result),
            _stability(result),
            _proof(result),
            _scenarios(result),
        ),
        warnings=tuple(best.warnings),
        origin=origin(best),
    )


# -- the best plan, the one to take, the scenario's own ----------------------------------------------------------------
def _tiles(result: PlanResult) -> tuple[Tile, ...]:
    best = result.best
    tiles = [_best(result), *_recommended(result)]
    if result.objectives[0] != "step_time":
        tiles.append(_objective(result))
    if (own := result.written) is not None:
        gain = result.gain or 0.0
        words = f"the best is {100 * gain:.1f} % shorter" if gain > 0 else "nothing in the space that fits is faster"
        beyond = own.peak_memory_reserved_bytes > result.memory_fraction * own.memory.capacity_bytes
        if own.memory_fits and beyond:
            words = f"more than search.limits.memory_fraction {result.memory_fraction:.3g} allows"
        notes: tuple[Words, ...] = (plan_words(own.plan), f"{gib(own.peak_memory_reserved_bytes)}: {words}")
        notes += () if own.memory_fits else (Text("the scenario's own plan does not fit", "bad"),)
        tiles.append(Tile("Scenario's own plan", seconds(own.step_time_s), notes))
    for name, other_s in result.compared.items():
        time = "–" if other_s is None else seconds(other_s)
        tiles.append(Tile(name.capitalize(), time, (f"instead: {instead_words(best, other_s)}",)))
    rate = f"{count(best.tokens_per_s_per_device)} tokens/s per device, {count(best.tokens_per_s)} in all"
    return (*tiles, Tile("MFU", percent(best.mfu), (rate,)), memory_tile(best))


def _best(result: PlanResult) -> Tile:
    best, row = result.best, best_row(result)
    name = "Best plan" if result.choice is None else "Fastest as simulated"
    values = {} if row is None else {n: v for n, v in row.values.items() if n != "step_time"}
    others = ", ".join(f"{metric_words(n)} {quantity(v, METRICS[n].unit)}" for n, v in values.items())
    notes = (best_words(result), interval_text(best), others, run_line(result))
    return Tile(name, seconds(best.step_time_s), tuple(note for note in notes if note))


def _recommended(result: PlanResult) -> tuple[Tile, ...]:
    choice = result.choice
    if choice is None:
        return ()
    if choice.same:
        return (Tile("Recommended", "the same plan", (choice_words(choice),)),)
    extra = f", {signed_percent(choice.slower)}" if choice.slower >= 5e-4 else ""
    notes = (plan_words(choice.plan) + extra, choice_words(choice))
    return (Tile("Recommended", seconds(choice.step_time_s), notes),)


def _objective(result: PlanResult) -> Tile:
    """The first objective, where it is not the step time."""
    first = METRICS[result.objectives[0]]
    name = metric_words(first.name)
    return Tile(f"Best {name}", quantity(result.proof.best, first.unit), (first.meaning.replace("`", ""),))


# -- tables of plans ---------------------------------------------------------------------------------------------------
def _front(result: PlanResult) -> Section | None:
    names = ", ".join(metric_words(name) for name in result.objectives)
    own = _plans("Pareto front", result.front, result)
    if own is None:
        return None
    hint = f"{len(result.front)} plans that no other beats in all of {names}"
    return replace(own, hint=hint, blocks=(Drawing(partial(charts.front, result)), *own.blocks))


def _is_out(row: Ranked) -> bool:
    """Whether a plan does not fit or breaks a limit: such plans stand last."""
    return row.fits is False or bool(row.missed)


def _plans(title: str, rows: Sequence[Ranked], result: PlanResult) -> Section | None:
    if not rows:
        return None
    names, shared = table_names(rows)
    metrics = [n for n in dict.fromkeys(n for r in rows for n in r.values) if n != "step_time"]
    heads = [*names, "step", "bound", "worse", *map(metric_words, metrics), "memory", "fits"]
    lines = []
    for r in rows:
        own = flat(r)
        best = bool(r.fits) and not r.missed and r.step_time_s == result.best.step_time_s
        cells = [
            *(field_text(own.get(n)) for n in names),
            seconds(r.step_time_s),
            seconds(r.bound_s),
            signed_percent(worse(r, result)),
            *(quantity(r.values[n], METRICS[n].unit) if n in r.values else "–" for n in metrics),
            "–" if r.reserved_bytes is None else gib(r.reserved_bytes),
            f"breaks {', '.join(r.missed)}" if r.missed else _FITS[r.fits],
        ]
        lines.append([Text(cell, strong=best) for cell in cells])
    least = [heads.index(name) for name in ("bound", "worse", "step", "memory")]
    found = table(heads, lines, numeric=range(len(heads)), drop=least)
    same = plan_words(shared, [*shared])
    return Section(title, (found, *([dim(f"the same in all: {same}")] if same else [])))


def _time_against_memory(result: PlanResult) -> Section | None:
    known = [r for r in result.frontier if r.reserved_bytes is not None]
    if not (result.why is not None and result.why.cells) and len(known) < 2:
        return None
    hint = "simulated plans" + (", and the line that bounds put under every plan of the space" if result.why else "")
    return chart("Time against memory", partial(charts.memory, result), hint, "half")


def _heat(result: PlanResult) -> Section | None:
    if result.why is None or not result.why.cells:
        return None
    hint = "seconds; bold and framed: simulated; ≥: a bound; empty: no plan keeps to the limits"
    return chart("Best of every tp and pp", partial(charts.heat, result.why), hint, "half", beside=True)


# -- why it is the best ------------------------------------------------------------------------------------------------
def _why(result: PlanResult) -> tuple[Section | None, ...]:
    if (why := result.why) is None:
        rows = [
            (axis, " · ".join(f"{v}: {seconds(s)}" for v, s in sorted(values.items(), key=lambda kv: int(kv[0]))))
            for axis, values in result.by_axis.items()
        ]
        return (Section("Least bound by axis", (pairs(rows),)),)
    goal = metric_words(result.objectives[0])
    by_axis = [
        (axis, " · ".join(f"{value}: {cell_words(cell)}" for value, cell in why.best_by(axis).items()))
        for axis in ("tp", "pp")
    ]
    clusters = [tuple(cluster_words(c, result.objectives[0]).split(": ")) for c in why.clusters]
    limits = [limit_words(limit) for limit in why.limits]
    return (
        _runner_up(result, why),
        Section("Best by axis", (pairs(by_axis),), "≥: a bound, not simulated"),
        Section(f"Best {goal} of every cluster", (pairs(clusters),), "≥ or ≤: a bound, not simulated"),
        Section("What limits cost", (pairs(limits),), limits_hint(result)),
    )


def _runner_up(result: PlanResult, why: Why) -> Section | None:
    other = why.runner_up
    if other is None or why.runner_up_plan is None:
        return None
    first = result.objectives[0]
    more = f"{seconds(other.step_time_s)}, {signed_percent(other.step_time_s / result.best.step_time_s - 1)}"
    if first != "step_time":
        more += f" ({metric_words(first)} {100 * why.runner_up_worse:.1f} % worse)"
    lines = [f"The next is {plan_words(why.runner_up_plan, [*why.runner_up_plan])}: {more}."]
    named = replace(result.best, scenario_name="best"), replace(other, scenario_name="next layout")
    if (paired := difference(*named).paired) is not None:
        verdict = paired.verdict.replace("A is", "the best is").replace("B is", "the next is")
        lines.append(f"{verdict[0].upper()}{verdict[1:]}.")
    steps = waterfall("best", result.best.step_time_s, why.seconds_by_class, "next layout")
    return Section("Why not another layout", (Lines(tuple(lines)), steps))


def _stability(result: PlanResult) -> Section | None:
    found = result.stability
    if found is None or not found.resources:
        return None
    words = plan_words({k: v for k, v in found.layout.items() if k in ("tp", "pp", "cp", "ep", "dp")})
    hint = f"one resource at a time; {found.searches} exact searches{'' if found.complete else '; interrupted'}"
    rows = [(name, "\n".join(lines)) for name, lines in map(resource_words, found.resources)]
    drawn = Drawing(partial(charts.stability, found))
    return Section(f"How far {words} stays the best", (drawn, pairs(rows)), hint)


def _proof(result: PlanResult) -> Section:
    excluded = [f"{n:,} axis combinations left out: {rule}" for rule, n in result.excluded.items()]
    lines = (*proof_words(result), *run_proof_words(result), *searched_words(result), *excluded)
    hint = f"{seconds(result.elapsed_s)}; {count(result.screened_per_s)} plans bounded a second"
    return Section("Proof", (Lines(lines, marked=True),), hint)


def _scenarios(result: PlanResult) -> Section:
    both: list[Any] = [result.scenario, "Scenario of the best plan"]
    if result.choice is not None and not result.choice.same:
        both += [result.choice.scenario, "Scenario of the recommended plan"]
    return scenario_section(*both)


# -- whole runs --------------------------------------------------------------------------------------------------------
def run_line(result: PlanResult) -> str:
    """The run of the best plan in one line; empty where no objective is one of runs."""
    row = best_row(result)
    run: dict[str, Any] = {} if row is None else row.whole_run
    if not run:
        return ""
    parts = [f"{three(run['days'])} days expected, {three(run['ideal_days'])} without failures and saves"]
    parts += [f"${run['run_cost']:,.0f}"] if run["run_cost"] == run["run_cost"] else []
    parts += [f"{three(run['carbon_kg'] / 1000)} t CO₂"] if run["carbon_kg"] == run["carbon_kg"] else []
    parts.append(f"{run['spares']} spares")
    saves = f"{gib(run['checkpoint_bytes'])} saved every {seconds(run['interval_s'])}"
    parts.append(f"{saves}, which stops the steps for {seconds(run['save_s'])}; load {seconds(run['load_s'])}")
    return " · ".join(parts)


def _finalists(result: PlanResult) -> Section:
    """Plans whose whole runs were replicated."""
    heads = ("plan", "expected", "replicated (80 %)", "behind the best (80 %)", "goodput")
    rows = [_finalist(one, METRICS[result.objectives[0]].unit) for one in result.finalists]
    found = table(heads, rows, numeric=range(1, 5), drop=(4,))
    return Section("Whole runs of the finalists", (found,), "in the same random numbers")


def _finalist(one: Finalist, unit: str) -> tuple[str, ...]:
    def signed(value: float) -> str:
        return ("−" if value < 0 else "+") + quantity(abs(value), unit)

    low, high = one.interval
    first, last = one.behind_interval
    none = (first, last) == (0.0, 0.0)
    where = f"{nodes_words(one.cluster['nodes'], one.cluster['device'])}, {one.cluster['spares']} spares"
    plan = plan_words({k: v for k, v in one.plan.items() if k != "dp"})
    return (
        f"{plan} · {where}",
        quantity(one.expected, unit),
        f"{quantity(one.replicated, unit)} ({quantity(low, unit)} to {quantity(high, unit)})",
        "–" if none else f"{signed(one.behind)} ({signed(first)} to {signed(last)})",
        percent(one.goodput),
    )


def run_proof_words(result: PlanResult) -> list[str]:
    """What the proof covers of whole runs, and what it does not."""
    row = best_row(result)
    if row is None or not row.whole_run:
        return []
    name = metric_words(result.objectives[0])
    ideal = row.whole_run["ideal_days"]
    out = [
        f"Proven: no plan has a lower expected {name} in closed form; with this plan's step no run can take less than "
        f"{three(ideal)} days."
    ]
    if result.finalists:
        tied = sum(one.behind_interval[0] <= 0 for one in result.finalists) - 1
        others = (
            f"{tied} of the others cannot be told from the best" if tied > 0 else "the best is told from the others"
        )
        others = "no other plan was near enough to be compared" if len(result.finalists) == 1 else others
        finalists = f"{len(result.finalists)} finalist{'s' if len(result.finalists) > 1 else ''}"
        out.append(
            f"Not proven: what the closed form leaves out (nodes that differ, wear, crews). 100 replications of "
            f"{finalists} in the same random numbers: {others}."
        )
    return out


# -- sentences ---------------------------------------------------------------------------------------------------------
_SIMPLER = {
    "kinds": "fewer kinds of parallelism",
    "redone": "less recomputation or offloading",
    "stages": "fewer virtual stages",
    "switches": "fewer switches off the framework's defaults",
    "inner": "layers cut over fewer devices",
}


def worse(row: Ranked, result: PlanResult) -> float:
    """How much worse a plan is than the best one at the first objective, as a share."""
    first = result.objectives[0]
    value, best = row.values.get(first, row.step_time_s), result.proof.best
    return (-1.0 if METRICS[first].maximise else 1.0) * (value - best) / abs(best) if best else 0.0


def cluster_words(cell: ClusterBest, objective: str) -> str:
    """The best of a cluster, marked where it is a bound."""
    metric = METRICS[objective]
    mark = "" if cell.simulated is not None else "≤ " if metric.maximise else "≥ "
    value = cell.bound if cell.simulated is None else cell.simulated
    return f"{nodes_words(cell.nodes, cell.device)} {cell.precision}: {mark}{quantity(value, metric.unit)}"


def instead_words(best: TrainingResult, other_s: float | None) -> str:
    """How the best plan over a heterogeneous cluster compares with another use of them."""
    if other_s is None:
        return "nothing fits"
    gain = 1.0 - best.step_time_s / other_s
    if gain < 0:
        return f"{100 * (1.0 - other_s / best.step_time_s):.1f} % shorter than all groups together"
    return f"the best is {100 * gain:.1f} % shorter"


def choice_words(choice: Choice) -> str:
    """Why a plan is recommended."""
    if choice.same:
        return "no simpler plan comes close"
    why = _SIMPLER[choice.differs[0]]
    if choice.probability_fastest_faster is None:
        return f"simpler ({why}); no measured pair of plans differs in these switches"
    sure = 100 * choice.probability_fastest_faster
    return f"simpler ({why}); the fastest is really faster with {sure:.0f} % probability"


def proof_words(result: PlanResult) -> list[str]:
    """What the certificate says, a sentence a line."""
    proof = result.proof
    parts = [f"{number:,} {_PRUNED.get(rule, f'break {rule}')}" for rule, number in result.pruned.items() if number]
    text = f"{proof.candidates:,} candidates: {', '.join([*parts, f'{proof.simulated:,} simulated'])}"
    if proof.complete:
        word = "faster" if proof.objective == "step_time" else "better"
        return [f"{text}; nothing in the space is {word}."]
    return [text + ".", f"Stopped early: {gap_words(result)}"]


def searched_words(result: PlanResult) -> list[str]:
    """Which axes the proof covers, and which stood still."""
    if not result.searched:
        return []
    varied = [f"{name} {_values_words(values)}" for name, values in result.searched.items()]
    return [f"Searched: {' · '.join(varied)}.", *not_searched_words(result)]


def limits_hint(result: PlanResult) -> str:
    """In which space limits were lifted: another one may have another price."""
    if not result.searched:
        return "the search again without one limit at a time"
    return f"the search again without one limit at a time, over {', '.join(result.searched)} alone"


def not_searched_words(result: PlanResult) -> list[str]:
    """Axes that stood still: first those that could vary, with what else runs, then the names of the others."""
    can_vary = {name: why for name, why in result.not_searched.items() if "search.space." in why or "training." in why}
    still = [name for name in result.not_searched if name not in can_vary]
    varies = " · ".join(f"{name} {why}" for name, why in can_vary.items())
    lines = [f"Not searched, though it can vary: {varies}."] if varies else []
    rest = f"Not searched, left as the framework or the plan has it: {', '.join(still)}."
    return [*lines, *([rest] if still else [])]


def _values_words(values: Sequence[Any]) -> str:
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(numbers) == len(values) > 4:
        return f"{numbers[0]} to {numbers[-1]} ({len(numbers)} values)"
    return ", ".join(field_text(value) for value in values)


_PRUNED = {
    "memory": "cannot fit",
    "bound": "have a lower bound no better than the best",
    "refused": "refused by the simulator",
}


def gap_words(result: PlanResult) -> str:
    """How much better a plan could be that was not looked at."""
    return f"a plan up to {100 * result.proof.gap:.1f} % better may exist."


def margin_words(result: PlanResult) -> str | None:
    """What the memory that plans leave free costs, where nothing else says so; None where none is left free."""
    free = f"{100 * (1.0 - result.memory_fraction):.3g} % of memory stay free (search.limits.memory_fraction)"
    if result.memory_fraction == 1.0 or result.why is not None:
        return None
    if (spare := result.without_margin) is None:
        return f"{free}: costs nothing among the plans that were simulated."
    gain = 1.0 - spare.step_time_s / result.proof.best_s
    least = f"costs at least {100 * gain:.1f} % of step time" if gain > 0 else "costs something"
    return f"{free}: {least}; a plan with {gib(spare.reserved_bytes or 0.0)} takes {seconds(spare.step_time_s)}."


def limit_words(limit: LimitCost) -> tuple[str, str]:
    """A limit and what lifting it would bring."""
    name = f"{limit.name} {quantity(limit.limit, limit.unit)}"
    if limit.plan is None:
        return name, "costs nothing in this space"
    needs = f", which needs {quantity(limit.needs, limit.unit)}" if limit.needs is not None else ""
    step = "" if limit.step_time_s is None else f"{seconds(limit.step_time_s)} with "
    what = "" if limit.of == "step_time" else f" of {metric_words(limit.of)}"
    return name, f"costs {100 * limit.gain:.1f} %{what}; without it {step}{plan_words(limit.plan)}{needs}"


def resource_words(r: Resource) -> tuple[str, list[str]]:
    """A resource, and where the layout stops being the best."""
    lines = []
    for edge, word in ((r.below, "down"), (r.above, "up")):
        text = f"{word} to {scale_text(edge.holds_at)}, {quantity(r.amount * edge.holds_at, r.unit)}"
        if edge.lost_at is None:
            lines.append(f"{text}, as far as was looked")
        else:
            what = "nothing fits" if edge.winner is None else plan_words(edge.winner)
            lines.append(f"{text}; at {scale_text(edge.lost_at)} {what}")
    return f"{RESOURCES[r.name]} ({quantity(r.amount, r.unit)})", lines
