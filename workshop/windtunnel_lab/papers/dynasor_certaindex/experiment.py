"""Probes that end chains of thought, and votes that end once answers agree, against chains and votes to their ends."""

from __future__ import annotations

import json
import math
from functools import lru_cache

import numpy as np

from windtunnel.programs.strategies.early_stop import settled, stops_at
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import run_of
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "dynasor-certaindex")
fixed = EXPERIMENT.fixed


def saved(values: Values) -> float:
    """Share of the tokens of chains that is saved; those of probes are left out."""
    random, spread = np.random.default_rng(0), math.sqrt(math.log1p(fixed("chain_cv") ** 2))
    drawn = fixed("chain_tokens") * np.exp(random.normal(-(spread**2) / 2, spread, fixed("chains")))
    tokens = np.clip(np.rint(drawn), 1, fixed("most_tokens")).astype(np.int64)
    share = settled(random, values["settles"], len(tokens))
    return float(1.0 - stops_at(tokens, share, fixed("interval"), values["agree"]).sum() / tokens.sum())


def scenario(rate: float, values: Values, *, tuned: bool) -> Values:
    """Votes on one device: all attempts at once in order of arrival, or in rounds with older programs first."""
    n = values["attempts"]
    rounds = {
        "n": n,
        "rule": "rounds",
        "round": fixed("round"),
        "certainty": values["certainty"],
        "rest": values["rest"],
    }
    length = {"distribution": "lognormal", "mean": values["answer_tokens"], "cv": fixed("answer_cv")}
    return {
        "model": fixed("model"),
        "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
        "serving": {"pools": [{"plan": {"tp": 1}, "queue": "program_deadline" if tuned else "fcfs"}]},
        "programs": {
            "strategy": {"early_stop": rounds} if tuned else {"best_of_n": {"n": n, "selector": "majority"}},
            "problems": fixed("programs"),
            "rate_per_s": rate,
            "input_tokens": fixed("prompt"),
            "output_tokens": length,
            "deadline_s": fixed("any_deadline_s"),
        },
        "population": {"pass_1": values["pass_1"], "concentration": fixed("concentration")},
    }


@lru_cache(maxsize=1024)
def _kept_s(text: str, share: float) -> float:
    seconds = run_of(json.loads(text)).latency_s
    return float(np.quantile(seconds, share, method="inverted_cdf")) if np.isfinite(seconds).all() else math.inf


def kept_s(rate: float, values: Values, *, tuned: bool, share: float | None = None) -> float:
    """Deadline that a share of programs keeps."""
    text = json.dumps(scenario(rate, values, tuned=tuned), sort_keys=True)
    return _kept_s(text, fixed("share") if share is None else share)


def most(values: Values, *, tuned: bool) -> float:
    """Programs a second up to which the deadline is kept, by halving the logarithm of the rate."""
    low, high = fixed("rate_range")
    limit_s = values["scale"] * kept_s(low, values, tuned=False, share=0.5)
    for _ in range(fixed("halvings")):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept_s(middle, values, tuned=tuned) <= limit_s else (low, middle)
    return math.sqrt(low * high)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"tokens": saved, "rate": lambda v: most(v, tuned=True) / most(v, tuned=False)}
