"""Where nothing keeps the objective: how near a deployment comes, what stops it, and what would have to change."""

from __future__ import annotations

import numpy as np

from windtunnel.planner.serving.best_first_search import Found
from windtunnel.planner.serving.candidate_table import NOTHING, TOO_SLOW, CandidateTable
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.planner.serving.question import Question
from windtunnel.planner.serving.simulate_candidate import PARTS, Runs, Trial

MOST = 96
"""Columns that are simulated to find the nearest miss."""
_WORDS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}


def nearest_miss(
    question: Question, kinds: list[InstanceType], table: CandidateTable, runs: Runs, found: Found
) -> tuple[str, str]:
    """What no candidate keeps, and the nearest miss: which limit, by how much, and what would have to change."""
    slo = question.goals.slo
    tried = {e.index: e for e in found.evaluated}
    over = _estimated(question, table)
    near = [int(i) for i in np.argsort(over, kind="stable")[:MOST]]
    trials: list[tuple[float, int, Trial]] = []
    for i in dict.fromkeys([*near, *sorted(tried, key=lambda i: over[i])[:MOST]]):
        trial = tried[i].trial if i in tried else runs.run(table.at(kinds, i))
        if trial is not None:
            values = question.goals.values(trial.figures)
            broken = len(question.goals.missed(values)) + 2.0 * bool(trial.rejected)
            worst = max([trial.quantiles[n] / v for n in PARTS if (v := getattr(slo, n))], default=1.0)
            if trial.saturated:  # latencies are then a matter of how long the run was
                worst = 1e6 + float(table.load[i]) * trial.figures.duration_s / max(trial.figures.completed, 1)
            trials.append((broken + max(worst, 1.0), i, trial))
    count = len(table)
    alone = int((table.impossible == TOO_SLOW).sum())
    head = f"none of {count:,} deployments keeps {_objective(question)}"
    if alone == count:
        head += ": in each, one request alone takes longer than that"
    elif not (table.impossible == NOTHING).any():
        head += ": in each, requests ask for more work than the objective leaves time for"
    if not trials:
        return head, "no engine starts with the limits of the space"
    _, i, trial = min(trials, key=lambda row: row[0])
    return head, f"{_miss(question, trial)} with {_words(kinds, table, i)}; {_change(question, trial)}"


def _objective(question: Question) -> str:
    slo = question.goals.slo
    parts = [f"{_WORDS[n]} {1e3 * v:,.4g} ms" for n in PARTS if (v := getattr(slo, n)) is not None]
    parts += [f"{table.metric.name} {table.value:,.4g}" for table in question.goals.limits]
    load = ""
    if question.load == "rate_per_s":
        load = f" at {question.serving.traffic.rate_per_s:g} requests/s"
    elif question.load == "concurrency":
        load = f" at {question.serving.traffic.concurrency} in flight"
    share = f" for {100 * slo.percentile:g} % of requests" if parts else ""
    return ", ".join(parts) + share + ("" if question.free else load)


def _miss(question: Question, trial: Trial) -> str:
    parts = []
    for n in () if trial.saturated else PARTS:
        limit = getattr(question.goals.slo, n)
        if limit is not None and trial.quantiles[n] > limit:
            got = trial.quantiles[n]
            parts.append(f"{_WORDS[n]} {1e3 * got:,.4g} ms, {100 * (got / limit - 1):,.1f} % over")
    values = question.goals.values(trial.figures)
    for bound in question.goals.limits:
        if not bound.met(values[bound.metric.name]):
            parts.append(f"{bound.metric.name} {values[bound.metric.name]:,.4g}")
    if trial.saturated:
        parts.append("requests arrive faster than they are served")
    if trial.rejected:
        parts.append(f"{trial.rejected:,} requests need more cache, or more length, than an instance has")
    if not parts:
        parts.append(f"{100 * trial.share:.1f} % of requests keep all parts at once")
    return "; ".join(parts)


def _change(question: Question, trial: Trial) -> str:
    """What would have to change for the nearest one."""
    parts = []
    if trial.rejected:
        parts.append("max_model_len and cache for the longest request")
    for n in () if trial.saturated else PARTS:
        limit = getattr(question.goals.slo, n)
        if limit is not None and trial.quantiles[n] > limit:
            parts.append(f"slo.{n} of {trial.quantiles[n]:.4g}")
    if trial.saturated and question.load == "rate_per_s":
        served = trial.figures.completed / trial.figures.duration_s
        parts.append(f"at most {served:,.3g} requests/s, or more devices")
    values = question.goals.values(trial.figures)
    for bound in question.goals.limits:
        if not bound.met(values[bound.metric.name]):
            parts.append(f"limits.{bound.metric.name} of {values[bound.metric.name]:,.4g}")
    return "it would take " + (" and ".join(parts) or "a lower percentile") + ", a lower load, or other devices"


def _words(kinds: list[InstanceType], table: CandidateTable, i: int) -> str:
    choice = table.at(kinds, i)
    text = _cut(choice.replicas, choice.kind)
    if choice.answers is not None:
        text = f"{text} for prompts and {_cut(choice.answering, choice.answers)} for answers"
    where = choice.kind.place.cluster.device.id
    return f"{text} on {where}, max_num_seqs {choice.sequences}, max_num_batched_tokens {choice.tokens}"


def _cut(replicas: int, kind: InstanceType) -> str:
    axes = {n: v for n, v in kind.axes().items() if n in ("tp", "pp", "dp", "ep") and v > 1} or {"tp": 1}
    return f"{replicas} × " + " ".join(f"{n} {v}" for n, v in axes.items())


def _estimated(question: Question, table: CandidateTable) -> np.ndarray:
    """How far each candidate is estimated to be over the objective."""
    slo = question.goals.slo
    out = np.ones(len(table))
    settles = np.isfinite(table.estimate[0])
    for column, limit in ((0, slo.ttft_s), (1, slo.tpot_s)):
        if limit:
            out = np.maximum(out, np.where(settles, table.estimate[column] / limit, out))
    if question.load == "rate_per_s":
        worst = float(out[settles].max(initial=1.0))  # whoever has a line without end is further off
        out = np.where(
            settles, out, worst + table.load / np.maximum(table.estimate[2] * table.requests_per_token, 1e-9)
        )
    for bound in question.goals.limits:
        out = out + ~bound.met(bound.metric.bound(table.best))
    return np.asarray(out + table.devices * 1e-9)
