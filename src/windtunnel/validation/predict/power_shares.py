"""Shares of a board's power that a served run draws: its mean, and while prompts are computed."""

from __future__ import annotations

from dataclasses import replace

from windtunnel.serving.results.power import PowerModel, power_report
from windtunnel.validation.predict.serving_run import Ready, cost
from windtunnel.validation.rows.serving_targets import Served

SAMPLE_S = 0.1
"""Between two samples of a board's power (DCGM, as Splitwise records it, arXiv 2311.18677)."""


def with_power(ready: Ready, served: Served) -> Served:
    """The run with its power, where one pool served it and the device's data sheet states a board power.

    A peak is the largest mean over `SAMPLE_S`: of prompts, and of the decode steps next to shorter ones.
    """
    board = ready.cluster.device.tdp_w
    if served.totals is None or not board:
        return served
    pool = ready.pools[0]
    own = cost(ready, pool, ready.coefficients(), engine=False)
    duration = float(served.requests.finish_s.max() - served.requests.arrival_s.min())
    instance = PowerModel(
        model=ready.model,
        cluster=ready.cluster,
        shape=pool.instance.shape,
        iteration=own,
        expert_skew=ready.serving.expert_skew,
    )
    report = power_report(instance, served.totals, duration, mixed=bool(pool.instance.limits.mixed))
    prompt, decode, mean = report.prompt_w, report.decode_w, report.mean_w_per_device
    most = decode if prompt is None else prompt
    if prompt is not None and decode is not None:
        most = max(decode, decode + (prompt - decode) * min(report.prompt_share * duration / SAMPLE_S, 1.0))
    return replace(
        served, mean_power=None if mean is None else mean / board, peak_power=None if most is None else most / board
    )
