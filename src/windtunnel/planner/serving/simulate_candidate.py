"""One candidate at request level: the jitted loop on the requests of the search, and what the planner reads of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.serving import release_of
from windtunnel.planner.serving.bounds import Sums
from windtunnel.planner.serving.build_fleet import fleet_of
from windtunnel.planner.serving.candidate_table import Choice
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.planner.serving.objectives import Figures
from windtunnel.planner.serving.question import Question
from windtunnel.serving.engine_defaults import version_of
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.fleet import Fleet
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.prefix_chains import Chains, chains_of
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.results.joint_draws import Draws, RunShape
from windtunnel.serving.results.measured_residuals import Site, kind_of, site_of
from windtunnel.serving.results.metrics import Measures, backlog_grows, measures
from windtunnel.serving.results.power import PowerModel, power_report
from windtunnel.serving.results.residual_bands import draws
from windtunnel.serving.results.steady_window import steady_window
from windtunnel.serving.run_setup.front_end import behind, front_end_of, has_stated_arrivals
from windtunnel.serving.run_setup.python_hooks import hooks_of
from windtunnel.serving.traffic import Traffic
from windtunnel.specs.serving import SloSpec

PARTS = {"ttft_s": "ttft", "tpot_s": "tpot", "e2e_s": "e2e"}
"""Parts of an objective, and the measures whose intervals they take."""
SHARES = tuple(float(x) for x in np.linspace(0.0, 1.0, 11))
"""Shares of the first token in a whole answer that a bound goes through, where the run is not known."""


MEASURED = Site(record="one measured run")
"""Key of draws once one instance has been measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a run of one candidate gave."""

    figures: Figures
    share: float
    """Share of requests that keep the objective at the central prediction."""
    share_upper: float
    """At the upper end of the prediction's interval."""
    saturated: bool
    rejected: int
    """Requests that were rejected (they need more cache than there is) or shed."""
    quantiles: dict[str, float]
    """Seconds of TTFT, TPOT and E2E that the wanted share of requests stays below, and medians."""
    peak: int
    """Most sequences of one lane at once."""
    high: dict[str, float] = field(default_factory=dict)
    """By how much measured times may exceed predicted ones, by part of the objective."""
    high_after: dict[str, float] = field(default_factory=dict)
    """The same once one instance has been measured; empty where no residual says it."""


@dataclass(slots=True, kw_only=True)
class Runs:
    """Runs candidates, and remembers requests and equal runs."""

    question: Question
    slo: SloSpec
    simulated: int = 0
    settled: int = 0
    """Candidates whose run is the same as one made before."""
    _sums: dict[tuple[float, bool, int], Sums] = field(default_factory=dict)
    _traffic: dict[float, Traffic] = field(default_factory=dict)
    _chains: dict[tuple[float, int], Chains] = field(default_factory=dict)
    _draws: dict[tuple[str, str, str, Site], Draws | None] = field(default_factory=dict)
    _bounds: dict[tuple[str, str, str, Site], dict[str, float]] = field(default_factory=dict)
    _known: dict[Hashable, list[tuple[Limits, int, Trial]]] = field(default_factory=dict)

    def traffic(self, load: float) -> Traffic:
        """Requests at a load, answers cut as the engine cuts them at its longest model length."""
        if load not in self._traffic:
            self._traffic[load] = self.question.traffic(load)
        return self._traffic[load]

    def sums(self, load: float, caching: bool, step: int) -> Sums:
        """What the requests at a load ask for."""
        key = load, caching, step
        if key not in self._sums:
            requests, warmup = self.traffic(load).requests, self.question.serving.traffic.warmup_requests
            self._sums[key] = Sums.of(requests, self.slo, warmup, caching=caching, step=step)
        return self._sums[key]

    def span_s(self, load: float) -> float:
        """Seconds between the first and the last arrival."""
        return self.sums(load, False, 1).span_s

    def longest(self, load: float) -> int:
        """Tokens of the longest prompt and answer."""
        requests = self.traffic(load).requests
        return int((requests.input_tokens + requests.output_tokens).max())

    def upper(
        self,
        kind: InstanceType,
        form: str = "whole",
        other: InstanceType | None = None,
        first_token_share: float | None = None,
    ) -> dict[str, float]:
        """By how much measured times may exceed predicted ones, by part of the objective; of two kinds the most.

        Args:
            kind: of instance.
            form: whole, or split.
            other: the kind that decodes, where pools are split.
            first_token_share: of the time of a whole answer, in the run; None: the share by which whole answers may
                exceed their prediction least, so that what is bounded by it is bounded in every run.
        """
        if other is not None and other.place is not kind.place:
            own, more = (self.upper(k, form, None, first_token_share) for k in (kind, other))
            return {n: max(own.get(n, 1.0), more.get(n, 1.0)) for n in {**own, **more}}
        key, drawn = self._drawn(kind, form)
        if drawn is None:
            return {}
        if first_token_share is not None:
            return self._ends(drawn, first_token_share)
        if key not in self._bounds:
            each = [self._ends(drawn, share) for share in SHARES]
            self._bounds[key] = {n: min(one[n] for one in each) for n in PARTS}
        return self._bounds[key]

    def upper_after(self, kind: InstanceType, form: str, first_token_share: float) -> dict[str, float]:
        """As `upper`, once one instance has been measured and predictions are scaled by it (`Draws.once_measured`)."""
        own, drawn = self._drawn(kind, form)
        key = (*own[:3], MEASURED)
        if key not in self._draws:
            self._draws[key] = None if drawn is None else drawn.once_measured()
        after = self._draws[key]
        if drawn is None or after is None:
            return {}
        now, then = self._ends(drawn, first_token_share), self._ends(after, first_token_share)
        return {n: min(now[n], then[n]) for n in PARTS}  # who measures knows no less

    def _drawn(self, kind: InstanceType, form: str) -> tuple[tuple[str, str, str, Site], Draws | None]:
        """What servers of a kind may do that nobody measured, and the key of these draws."""
        s, device = kind.serving, kind.place.cluster.device
        site = site_of(device)
        key = release_of(s.engine, s.engine_version), device.generation, form, site
        if key not in self._draws:
            self._draws[key] = draws((*key[:2], kind_of(self.question.model)), form=form, site=site)
        return key, self._draws[key]

    def _ends(self, drawn: Draws, first_token_share: float) -> dict[str, float]:
        load = "offline" if self.question.serving.traffic.offline else "closed"
        found = drawn.bands(RunShape(load=load, first_token_share=first_token_share))
        return {n: found[measure].high for n, measure in PARTS.items()}

    def tightened(
        self,
        kind: InstanceType,
        form: str = "whole",
        other: InstanceType | None = None,
        first_token_share: float | None = None,
    ) -> SloSpec:
        """The objective over how much longer things may take: who keeps it keeps the other at the upper end."""
        high = self.upper(kind, form, other, first_token_share)
        parts = {n: None if (v := getattr(self.slo, n)) is None else v / high.get(n, 1.0) for n in PARTS}
        return self.slo.model_copy(update=parts)

    def run(self, choice: Choice) -> Trial | None:
        """Simulate a candidate; None where its engine does not start."""
        traffic = self.traffic(choice.load)
        fleet = fleet_of(self.question, choice, self.longest(choice.load), traffic.concurrency)
        if fleet is None:
            return None
        limits = fleet.limits[0]
        rest = replace(limits, max_seqs=0, blocks=0, watermark=0, swap_blocks=0)
        key = id(choice.kind), choice.replicas, id(choice.answers), choice.answering, choice.load, rest
        for other, peak, trial in self._known.get(key, []):
            alike = limits.caching and self._chains[choice.load, fleet.block].common > 0
            if choice.answers is None and _same_run(limits, other, peak, traffic.requests, alike=alike):
                self.settled += 1
                return trial
        trial = self._simulate(choice, fleet, traffic)
        self.simulated += 1
        self._known.setdefault(key, []).append((limits, trial.peak, trial))
        return trial

    def _simulate(self, choice: Choice, fleet: Fleet, traffic: Traffic) -> Trial:
        question, instance, limits = self.question, choice.kind.instance, fleet.limits[0]
        requests = replace(traffic.requests, arrival_s=traffic.requests.arrival_s.copy())
        if longest := instance.max_model_len:
            room = np.maximum(longest - requests.input_tokens, 1)
            requests.output_tokens = np.minimum(requests.output_tokens, room).astype(np.int32)
        chains = None
        if fleet.caching:
            block = choice.load, fleet.block
            if block not in self._chains:
                self._chains[block] = chains_of(requests, fleet.block, question.serving.traffic.shared_prefix_tokens)
            chains = self._chains[block]
        needs_python = choice.kind.iteration.overlap is not None
        sides = [choice.kind] if choice.answers is None else [choice.kind, choice.answers]
        hooks = [hooks_of(k.instance, k.serving, limits, len(requests), needs_python=needs_python) for k in sides]
        if instance.queue.id == "fcfs" and requests.priority.any():
            requests.priority = np.zeros(len(requests), np.int32)
        if (hook := hooks[0]) is None:
            outcome = self._behind_front_end(
                choice, traffic, requests, lambda own: loop.serve_fleet(own, fleet, chains)
            )
        else:
            outcome = loop.serve_fleet_in_python(
                requests,
                fleet,
                LoopRules(
                    policies=[own.policy for own in hooks if own],
                    router=hook.router,
                    queue=hook.queue,
                    admission=hook.admission,
                    pace=hook.pace,
                ),
                chains=chains,
            )
        return self._trial(choice, fleet, requests, outcome.totals, traffic)

    def _behind_front_end(
        self, choice: Choice, traffic: Traffic, requests: Requests, run: Callable[[Requests], loop.Outcome]
    ) -> loop.Outcome:
        serving, servers = choice.kind.serving, choice.replicas * choice.kind.plan.dp
        front = None
        if has_stated_arrivals(requests, traffic.concurrency, offline=traffic.spec.offline):
            front = front_end_of(serving, version_of(serving.engine_version), servers)
        if front is None:
            return run(requests)
        return behind(front.times(choice.kind.iteration.coefficients.front_end), requests, run)[0]

    def _trial(self, choice: Choice, fleet: Fleet, requests: Requests, totals: Any, traffic: Traffic) -> Trial:
        spec, kind = traffic.spec, choice.kind
        found = measures(requests, kind.iteration.request_s, spec.warmup_requests)
        done = requests.state == DONE
        count = max(int(found.done.sum()), 1)
        share = float(found.good(self.slo).sum()) / count
        form = "whole" if choice.answers is None else "split"
        answer = float(np.nanmean(found.e2e_s)) if found.done.any() else 0.0
        first_share = float(np.nanmean(found.ttft_s)) / answer if answer > 0.0 else 0.0
        upper = float(found.good(self.tightened(kind, form, choice.answers, first_share)).sum()) / count
        first = float(np.nanmin(requests.arrival_s)) if len(requests) else 0.0
        last = float(np.nanmax(requests.finish_s)) if done.any() else 0.0
        duration, tokens = max(last - first, 1e-12), float(requests.output_tokens[done].sum())
        rejected = int((~done).sum())
        if longest := kind.instance.max_model_len:
            rejected += int((requests.input_tokens >= longest).sum())
        mean_w = self._watts(choice, fleet, totals, duration, tokens) if self.question.goals.needs("power") else None
        quantiles, completed = _quantiles(found, self.slo), float(done.sum())
        open_loop = not traffic.concurrency and not spec.offline
        # where the load is searched, short windows would rank loads by chance: those runs are measured whole
        fixed = open_loop and not self.question.free
        if fixed and (window := steady_window(requests, spec.warmup_requests)) is not None:
            duration = window.seconds
            tokens, completed = window.output_tokens_per_s * duration, window.requests_per_s * duration
        figures = Figures(
            devices=choice.devices,
            price=choice.price,
            duration_s=duration,
            output_tokens=tokens,
            completed=completed,
            share=share,
            tpot_p50_s=quantiles["tpot_p50_s"],
            mean_w=mean_w,
        )
        saturated = open_loop and backlog_grows(requests)
        return Trial(
            figures=figures,
            share=share,
            share_upper=upper,
            saturated=saturated,
            rejected=rejected,
            quantiles=quantiles,
            peak=int(totals["running_max"].max()),
            high=self.upper(kind, form, choice.answers, first_share),
            high_after=self.upper_after(kind, form, first_share),
        )

    def _watts(self, choice: Choice, fleet: Fleet, totals: Any, duration_s: float, tokens: float) -> float:
        """Mean draw of all devices."""
        out = 0.0
        for i, kind in enumerate([choice.kind] if choice.answers is None else [choice.kind, choice.answers]):
            own = totals[fleet.pool == i]
            instance = PowerModel(
                model=self.question.model,
                cluster=kind.place.cluster,
                shape=kind.instance.shape,
                iteration=kind.iteration,
                expert_skew=kind.serving.expert_skew,
            )
            drawn = power_report(instance, own, duration_s, output_tokens=tokens, mixed=fleet.limits[i].mixed)
            out += (drawn.mean_w_per_device or 0.0) * len(own) * kind.instance.shape.ranks
        return out


def _quantiles(found: Measures, slo: SloSpec) -> dict[str, float]:
    out = {}
    for name, values in (("ttft_s", found.ttft_s), ("tpot_s", found.tpot_s), ("e2e_s", found.e2e_s)):
        known = np.sort(values[np.isfinite(values)])
        for share, word in ((slo.percentile, name), (0.5, f"{name[:-2]}_p50_s")):
            out[word] = _at(known, share) if len(known) else 0.0
    return out


def _at(values: Floats, share: float) -> float:
    """A quantile of sorted values, linear between neighbours (as NumPy's, at a tenth of its cost)."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return float(values[low] + (place - low) * (values[high] - values[low]))


def _same_run(a: Limits, b: Limits, peak: int, requests: Requests, *, alike: bool) -> bool:
    """Whether limits that differ in sequences and blocks alone, which no request ever met, give the same run.

    `peak`: most sequences that a lane of `b` held at once. Both must take more, and have room for as many of the
    longest requests and two more; where prompts are `alike`, blocks that nobody holds count too, and no run is.
    """
    if (a.max_seqs, a.blocks, a.watermark, a.swap_blocks) == (b.max_seqs, b.blocks, b.watermark, b.swap_blocks):
        return True
    if alike or min(a.max_seqs, b.max_seqs) <= peak:
        return False
    longest = int((requests.input_tokens + requests.output_tokens).max())
    extra = a.sequence_blocks + int(np.ceil(min(longest, a.window) * a.window_share / a.block)) + 2
    most = (peak + 2) * (-(-longest // a.block) + extra)
    return min(a.blocks - a.watermark, b.blocks - b.watermark) >= most
