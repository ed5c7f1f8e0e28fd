"""One candidate: its programs through the request loop, and the point of the front that comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.errors import BadInput, Problem
from windtunnel.machine_memory import refusal, require_bytes
from windtunnel.population.accuracy import Accuracy
from windtunnel.population.population import Population
from windtunnel.programs.attempt_lengths import attempt_lengths
from windtunnel.programs.bands import Band, energy_band, scaled_band, widest_band
from windtunnel.programs.candidates import Candidate
from windtunnel.programs.cost_law import cost_of
from windtunnel.programs.quality import ASSUMED_SEPARATION, Quality
from windtunnel.programs.result import Point
from windtunnel.programs.served import Deployed, NotServed, serve
from windtunnel.programs.strategy import Banded, Built, OffPeak
from windtunnel.programs.workload import ANSWERS, VERIFIER, Workload, drawn_difficulty
from windtunnel.serving.event_loop.requests import DONE, REJECTED, SHED, Requests
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.traffic import lengths
from windtunnel.serving.traffic.program_graph import CALL, JOINT, Drawn, ProgramGraph
from windtunnel.serving.traffic.single_source import sent
from windtunnel.specs.programs import ProgramsSpec
from windtunnel.techniques.knobs import named

_FOR_EVER_S = 1e9
MOST_CALLS = 50_000
"""Of a run that measures what devices can do."""
_BYTES_A_PROBLEM = 1000.0
"""Of a program of one call."""
ROUNDS = 3
"""Problems for each that is worked on at once, below which a closed loop is mostly beginning and end."""
_BINS = 20
"""Of problems by difficulty, for accuracies that are drawn."""
_PLANNED_POINTS = 400
"""Points of a population for strategies that plan by difficulty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What was served while devices were idle: its time on all of them, and its energy."""

    span_s: float
    energy_j: float | None
    price_share: float
    tokens: float
    prompt_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A candidate's programs after their run."""

    candidate: Candidate
    deployed: Deployed
    built: Built
    graph: ProgramGraph
    drawn: Drawn
    results: tuple[ServingResult, ...]
    latency_s: Floats
    """(P,) from a problem's arrival to its end; nan where a call was not completed."""
    begun_s: Floats
    ended_s: Floats
    off_peak: Idle | None = None

    @property
    def requests(self) -> Requests:
        """All calls."""
        return self.drawn.requests

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last end."""
        ends = self.ended_s[np.isfinite(self.ended_s)]
        begins = self.begun_s[np.isfinite(self.begun_s)]
        return float(ends.max() - begins.min()) if len(ends) else 0.0

    @property
    def problems_per_s(self) -> float:
        """Problems that ended, over `span_s`."""
        done = int(np.isfinite(self.latency_s).sum())
        return done / self.span_s if self.span_s > 0 else 0.0


def quality_of(spec: ProgramsSpec, population: Population) -> Quality:
    """What scenario and population say of verifier, votes and lengths."""
    own = spec.verifier
    stated = own is not None and own.separation is not None
    return Quality(
        separation=own.separation if own is not None and own.separation is not None else ASSUMED_SEPARATION,
        separation_stated=stated,
        true_accept=own.true_accept if own else None,
        false_accept=own.false_accept if own else None,
        wrong_answers=population.wrong_answers,
        lengths=population.lengths,
        max_tokens=population.max_tokens,
        points=population.points(_PLANNED_POINTS),
        attempts=attempt_lengths(spec.output_tokens, population.lengths, population.max_tokens),
    )


def workload(spec: ProgramsSpec, population: Population, deployed: Deployed) -> Workload:
    """The problems of a simulation; the same ones for every strategy and model."""
    drawn = lengths.draw(spec.input_tokens, spec.problems, spec.seed, lengths.INPUT)
    return Workload(
        spec=spec,
        p=drawn_difficulty(population.points(), spec.problems, spec.seed),
        prompt_tokens=drawn.astype(np.int64),
        lengths=attempt_lengths(spec.output_tokens, population.lengths, population.max_tokens),
        quality=quality_of(spec, population),
        seed=spec.seed,
        folder=deployed.answers.folder,
        verifier_pool=VERIFIER if deployed.verifier is not None else ANSWERS,
        roles=deployed.role_pools,
    )


def simulate(candidate: Candidate, spec: ProgramsSpec, population: Population, deployed: Deployed) -> Simulated:
    """Draw the programs of a candidate and serve them."""
    require_bytes(_BYTES_A_PROBLEM * spec.problems, "programs.problems", f"{spec.problems:,} problems")
    begins_s = sent(deployed.answers.serving.traffic, spec.seed, spec.problems, 1.0)
    if spec.offline:
        begins_s = np.zeros(spec.problems)
    limited = [own.concurrency for own in spec.tools.values() if own.concurrency is not None]
    graph = ProgramGraph(begins_s, servers=tuple(limited), keep_s=keep_s_of(spec))
    try:
        built = candidate.strategy.build(graph, workload(spec, population, deployed), candidate.knobs)
        drawn = graph.finish()
    except MemoryError as error:
        rule = f"{spec.problems:,} programs of {candidate.method} do not fit into memory: {refusal(error)}"
        raise NotServed(BadInput(Problem("programs.problems", rule))) from None
    off_peak = None if built.off_peak is None else _idle(built.off_peak, deployed)
    if spec.deadline_s is not None:
        drawn.requests.deadline_s = np.full(len(drawn.requests), spec.deadline_s)
    results = serve(deployed, drawn.requests)
    begun_s, ended_s = _spans(graph, built, drawn, deployed)
    if not np.isfinite(ended_s).any():
        rule = f"no problem of {candidate.label} ends, each has a call that is rejected: {_rejections(results)}"
        raise NotServed(BadInput(Problem("programs", rule)))
    return Simulated(
        candidate=candidate,
        deployed=deployed,
        built=built,
        graph=graph,
        drawn=drawn,
        results=results,
        latency_s=ended_s - begun_s,
        begun_s=begun_s,
        ended_s=ended_s,
        off_peak=off_peak,
    )


def _rejections(results: Sequence[ServingResult]) -> str:
    """Why calls were rejected."""
    return "; ".join(dict.fromkeys(w for r in results for w in r.warnings if "reject" in w))


def _idle(own: OffPeak, deployed: Deployed) -> Idle:
    """Serve what needs no device of its own time, all of it at once."""
    drawn = own.graph.finish()
    results = serve(deployed, drawn.requests)
    ends = node_ends_s(own.graph, drawn, deployed.answers.iteration.request_s)[own.ends]
    energies = [r.power.get("energy_j") for r in results]
    if not np.isfinite(ends).any():
        rule = f"no off-peak call ends: {_rejections(results)}"
        raise NotServed(BadInput(Problem("programs", rule)))
    return Idle(
        span_s=float(np.nanmax(ends)),
        energy_j=None if None in energies else sum(e for e in energies if e is not None),
        price_share=own.price_share,
        tokens=float(drawn.requests.output_tokens.sum()),
        prompt_tokens=float(drawn.requests.input_tokens.sum()),
    )


def keep_s_of(spec: ProgramsSpec) -> float:
    """`Requests.keep_s` of a scenario's pauses."""
    if spec.pause == "hold":
        return _FOR_EVER_S if spec.hold_s is None else spec.hold_s
    return -1.0 if spec.pause == "drop" else 0.0


def capacity(candidate: Candidate, spec: ProgramsSpec, population: Population, deployed: Deployed) -> Simulated:
    """The candidate with so many problems at once that its instances are full: what the devices can do.

    Problems are added until calls are twice the sequences that all instances decode together, up to `MOST_CALLS`.
    """
    calls = simulate(candidate, _at_once(spec, 8), population, deployed).requests
    each = max(len(calls) / 8, 1.0)
    own = deployed.answers
    wanted = 2.0 * own.lanes * own.limits.max_seqs / each
    count = int(np.clip(wanted, spec.problems, max(MOST_CALLS / each, 8)))
    return simulate(candidate, _at_once(spec, count), population, deployed)


def _at_once(spec: ProgramsSpec, problems: int) -> ProgramsSpec:
    changed = {"offline": True, "rate_per_s": None, "concurrency": None, "problems": problems}
    return spec.model_copy(update=changed)


def point(run: Simulated, spec: ProgramsSpec, population: Population, at_most: Simulated | None = None) -> Point:
    """Figures of a candidate; `at_most` is its run on full instances, where the devices' capacity is asked for."""
    requests, count = run.requests, spec.problems
    price = run.deployed.usd_per_s
    idle = run.off_peak
    energies = [r.power.get("energy_j") for r in run.results] + ([] if idle is None else [idle.energy_j])
    paid = run.deployed.usd(run.results, run.span_s)
    if paid is not None and price is not None and idle is not None:
        paid += price * idle.price_share * idle.span_s
    extra = (0.0, 0.0) if idle is None else (idle.tokens, idle.prompt_tokens)
    whole = run.latency_s[np.isfinite(run.latency_s)]
    first = run.results[0]
    latency_s = _distribution(whole)
    begun = np.isfinite(requests.scheduled_s)
    cost = None if paid is None else paid / count
    energy = None if None in energies else sum(e for e in energies if e is not None) / count
    full = spec.offline or spec.concurrency is not None
    able = None if at_most is None else at_most.problems_per_s
    law = cost_of(run.deployed.all, requests)
    return Point(
        model=run.deployed.name,
        strategy=run.candidate.strategy.id,
        label=run.candidate.label,
        method=run.candidate.method,
        load=run.candidate.load,
        knobs=dict(run.candidate.knobs),
        n=run.candidate.strategy.samples(run.candidate.knobs),
        accuracy=accuracy(run.candidate, spec, population, run.built),
        cost_usd=cost,
        energy_j=energy,
        latency_s=latency_s,
        tokens=(float(requests.generated_tokens.sum()) + extra[0]) / count,
        prompt_tokens=(float(requests.input_tokens[begun].sum()) + extra[1]) / count,
        cached_tokens=float(requests.cached_tokens.sum()) / count,
        calls=float(begun.sum()) / count,
        flop=law.flop / count,
        read_bytes=law.read_bytes / count,
        eflop=law.eflop / count,
        problems_per_s=run.problems_per_s,
        deadline_met=None if spec.deadline_s is None else float((whole <= spec.deadline_s).sum()) / count,
        num_devices=run.deployed.num_devices,
        busy_share=float(first.iterations["busy_share"]),
        bound_by=first.bound_by,
        saturated=any(r.saturated for r in run.results),
        scored=run.candidate.strategy.scores(run.candidate.knobs),
        usd_per_day=None if price is None else price * 86400.0,
        capacity_problems_per_s=able,
        capacity_interval=None if at_most is None else _widest(at_most, "output_tokens_per_s", able or 0.0),
        intervals={
            "cost_usd": None if cost is None or not full else _widest(run, "output_tokens_per_s", cost, inverse=True),
            "energy_j": None if energy is None else energy_band(run.results, energy),
            "latency_p50_s": _widest(run, "e2e_s", latency_s["p50"]),
            "latency_p99_s": _widest(run, "e2e_s", latency_s["p99"]),
        },
        serving={name: _figures(r) for name, r in zip(run.deployed.names, run.results, strict=True)},
        notes=_notes(run, count - len(whole), spec),
    )


def _notes(run: Simulated, lost: int, spec: ProgramsSpec) -> tuple[str, ...]:
    """What a reader of the figures must know."""
    out, count = [], spec.problems
    if lost:
        text = f"{lost} of {count} problems have a call that was rejected: their latency is not counted, and their "
        out.append(f"{text}cost and tokens are those of the calls before it; {_rejections(run.results)}".rstrip("; "))
    answers = run.deployed.answers
    if run.requests.reused_tokens.any() and answers.lanes > 1 and named(answers.serving.router)[0] != "gang":
        text = "caches of threads are taken over as if all threads of a problem ran on one instance"
        out.append(f"{text}: state serving.router: gang")
    if spec.concurrency is not None and count < ROUNDS * spec.concurrency:
        text = f"{count:,} problems are fewer than {ROUNDS} times the {spec.concurrency:,} at once"
        out.append(f"{text}: beginning and end of the run weigh on its figures; state more in programs.problems")
    return tuple(out)


def _widest(run: Simulated, name: str, value: float, *, inverse: bool = False) -> Band | None:
    """Interval of a value that follows a figure of every deployment."""
    return widest_band([scaled_band(r, name, value, inverse=inverse) for r in run.results], value)


def accuracy(candidate: Candidate, spec: ProgramsSpec, population: Population, built: Built) -> Accuracy | None:
    """Share of problems that end right: by the strategy's law over the population, else as the programs were drawn."""
    own, quality = candidate.strategy.success, quality_of(spec, population)
    if own is None:
        return None if built.right is None else _as_drawn(built.right, spec, population)

    known: dict[bytes, Floats | Banded] = {}

    def found(p: Floats) -> Floats | Banded:
        key = p.tobytes()
        if key not in known:
            known[key] = own(p, candidate.knobs, quality)
        return known[key]

    def part(name: str) -> Accuracy:
        return population.accuracy(lambda p: getattr(x, name) if isinstance(x := found(p), Banded) else x)

    middle = part("mean")
    banded = next((x for x in known.values() if isinstance(x, Banded)), None)
    if banded is None:
        return middle
    low, high = part("low").low, part("high").high
    why = f"{middle.why}; {banded.why}"
    return Accuracy(mean=middle.mean, low=low, high=high, grade="assumed", why=why, level=middle.level)


def _as_drawn(drawn: Mask, spec: ProgramsSpec, population: Population) -> Accuracy:
    """Share of programs that were drawn right, with both bands: that of so few programs, and that of the population.

    How often a program ends right given its problem is taken from programs of about equal success probabilities; over
    the laws that the population's fit allows, that gives another mean each.
    """
    from scipy.stats import binomtest

    right, count = int(drawn.sum()), len(drawn)
    level = 0.9
    few = binomtest(right, count).proportion_ci(level, method="wilson")
    p = drawn_difficulty(population.points(), count, spec.seed)
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, min(_BINS, count))
    at, share = (np.array([float(own[part].mean()) for part in parts]) for own in (p, drawn.astype(np.float64)))
    of_law = population.accuracy(lambda x: np.interp(x, at, share), level)
    mean = right / count
    low = mean - float(np.hypot(mean - few.low, of_law.mean - of_law.low))
    high = mean + float(np.hypot(few.high - mean, of_law.high - of_law.mean))
    why = f"{count:,} programs as they were drawn; {of_law.why}"
    return Accuracy(mean=mean, low=max(low, 0.0), high=min(high, 1.0), level=level, grade="assumed", why=why)


def _spans(graph: ProgramGraph, built: Built, drawn: Drawn, deployed: Deployed) -> tuple[Floats, Floats]:
    """(P,) when each problem began, and when it ended."""
    requests = drawn.requests
    program = graph["program"][graph["kind"] == CALL]
    program = program[np.argsort(program, kind="stable")]
    begun = np.full(len(graph.begins_s), np.inf)
    np.minimum.at(begun, program, np.nan_to_num(requests.arrival_s, nan=np.inf))
    ends = node_ends_s(graph, drawn, deployed.answers.iteration.request_s)[built.ends]
    refused = np.isin(requests.state, (REJECTED, SHED))
    ends[np.isin(np.arange(len(ends)), requests.group[refused])] = np.nan
    return np.where(np.isfinite(begun), begun, np.nan), ends


def node_ends_s(graph: ProgramGraph, drawn: Drawn, request_s: float) -> Floats:
    """(N,) when each node was over, as a client sees it; nan where it never was.

    Args:
        graph: of the programs.
        drawn: after the run.
        request_s: seconds of client, HTTP and tokeniser, once for every call on the way.
    """
    requests, number = drawn.requests, drawn.number
    assert requests.after is not None
    ends = np.full(graph.count, np.nan)
    calls, joints = (np.flatnonzero(graph["kind"] == kind) for kind in (CALL, JOINT))
    own = number[calls]
    ends[calls] = np.where(requests.state[own] == DONE, requests.finish_s[own], np.nan)
    ends[joints] = requests.after.over_s[number[joints] - len(requests)]
    seen: Floats = ends + request_s * graph["hops"]
    return seen


def _distribution(values: Floats) -> dict[str, float]:
    if not len(values):
        return {"mean": float("nan"), "p50": float("nan"), "p90": float("nan"), "p99": float("nan")}
    p50, p90, p99 = np.quantile(values, [0.5, 0.9, 0.99])
    return {"mean": float(values.mean()), "p50": float(p50), "p90": float(p90), "p99": float(p99)}


def _figures(r: ServingResult) -> dict[str, Any]:
    """What a deployment's own result says, in short."""
    return {
        "ttft_s": r.ttft_s.to_dict(),
        "tpot_s": r.tpot_s.to_dict(),
        "output_tokens_per_s": r.output_tokens_per_s,
        "prefix_hit_rate": r.prefix_hit_rate,
        "mean_w_per_device": r.power.get("mean_w_per_device"),
        "kv_cache_usage_max": r.kv_cache_usage_max,
        "preemptions": r.preemptions,
        "num_devices": r.num_devices,
        "grades": dict(r.grades),
    }
