"""What a result says next to its figures: values that the scenario left open, and warnings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from windtunnel.importers.model import tuned_from
from windtunnel.serving.event_loop.requests import REJECTED, Requests
from windtunnel.serving.results.metrics import sessions_outlast_arrivals, too_short_to_tell
from windtunnel.techniques import remarks

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment, Pool


def assumptions(d: Deployment, traffic: tuple[tuple[str, Any, str], ...]) -> tuple[dict[str, str], ...]:
    """List every value that the scenario does not state, once: field, value, why.

    Args:
        d: what was run.
        traffic: (field, value, why) of the traffic.
    """
    rows = [(a.field, a.value, a.why) for pool in d.pools for a in pool.instance.assumed]
    rows += d.assumed
    if d.iteration.overlap is not None:
        ids = ", ".join(x.technique.id for x in d.techniques)
        rows.append(("techniques", ids, "change iterations: the reference loop runs them, which is slower"))
    if (split := d.pool.sm_split) is not None:
        why = "prompts and answers run side by side: the reference loop has that, which is slower"
        rows.append(("serving.pools[0].sm_split", split.prefill_share, why))
    rows += [*traffic, *tuned_from(d.scenario), *d.cluster.assumed]
    once = dict.fromkeys((name, str(value), why) for name, value, why in rows)
    return tuple({"field": name, "value": value, "why": why} for name, value, why in once)


def unstarted(pool: Pool) -> str | None:
    """Say that an engine would refuse to start with its own longest context; None where it starts.

    vLLM's check_enough_kv_cache_memory (v1/core/kv_cache_utils.py) wants room for one request of max_model_len.
    """
    own, tokens = pool.instance, pool.instance.capacity.tokens // pool.instance.shape.dp
    if not own.defaults.fits_longest or pool.spec.kv.lending or not 0 < tokens < own.max_model_len:
        return None
    return (
        f"{own.engine.name} refuses to start as stated: its cache holds {tokens:,} tokens, fewer than the model's "
        f"{own.max_model_len:,}; state serving.pools[{pool.index}].limits.max_model_len (exported files do)"
    )


TOLD_WAIT_SHARE = 0.02
"""Share of its time above which a pipeline is said to wait; below, a result looks the same without."""


def pipelines(by_pool: Iterable[tuple[Pool, Any]]) -> list[str]:
    """Say of each pool with pipeline stages how long its micro-batches wait for each other, and how sure that is.

    Args:
        by_pool: pools with the records `records.TOTAL` of their lanes.
    """
    out = []
    for pool, totals in by_pool:
        stages, share = pool.spec.plan.pp, stage_wait_share(totals)
        if stages > 1 and share >= TOLD_WAIT_SHARE:
            out.append(
                f"{pool.name}: micro-batches wait {share:.0%} of their time for others in the {stages} stages of their "
                "pipeline: they are uneven (prompts next to decodes), or one stage is slower; published pipelines "
                "ran up to a quarter slower than simulated: small gains of pp over tp are not settled"
            )
    return out


def stage_wait_share(totals: Any) -> float:
    """Share of the time of micro-batches in which they wait for others of their pipeline.

    Args:
        totals: records `records.TOTAL` of the lanes.
    """
    return float(totals["stage_wait_s"].sum()) / max(float(totals["busy_s"].sum()), 1e-300)


_LONGEST_S = {"ttft_s": 60.0, "tpot_s": 1.0}
"""Part of an objective → seconds above which it was probably meant in milliseconds."""


def _long_objectives(d: Deployment) -> list[str]:
    """A question for each objective that is so long that milliseconds may have been meant."""
    found = ((name, getattr(d.serving.slo, name)) for name in _LONGEST_S)
    return [
        f"serving.slo.{name} is {value:g} s; if milliseconds were meant, write `{value:g} ms`"
        for name, value in found
        if value is not None and value > _LONGEST_S[name]
    ]


def warnings(d: Deployment, requests: Requests, *, saturated: bool) -> tuple[str, ...]:
    """List what a reader of the result should know before using it.

    Args:
        d: what was run.
        requests: after the run.
        saturated: whether requests arrive faster than they are served.
    """
    out = list(remarks(d.techniques, d.scenario, "serving"))
    if not all(p.power_cap.within for p in d.pools):
        out.append(f"power_cap_w {d.cluster.power_cap_w:g} is below what some iterations draw at the least clock")
    if saturated and d.serving.traffic.num_requests:
        out.append("no steady state: ask for a lower rate, or for more instances")
    out += [line for pool in d.pools if (line := unstarted(pool)) is not None]
    open_loop = not d.limits.concurrency and not d.serving.traffic.offline
    if not saturated and open_loop and too_short_to_tell(requests):
        out.append("batches still fill when the last request comes: ask for more requests to tell a steady state")
    if d.serving.traffic.rate_per_s and (spans := sessions_outlast_arrivals(requests)):
        out.append(
            f"conversations last {spans[0]:,.0f} s and new ones come for {spans[1]:,.0f} s: load rises and falls, and "
            "is the stated rate briefly or never; ask for more requests (num_requests)"
        )
    out += _long_objectives(d)
    coefficients = d.iteration.coefficients
    if "fitted" not in coefficients.grades.values():
        generation = d.cluster.device.generation
        out.append(
            f"no measured rows set the coefficients of {d.serving.engine} on {generation}: data-sheet peaks, scaled"
        )
    longest = d.instance.max_model_len or 2**31
    if ((requests.state == REJECTED) & (requests.input_tokens < longest)).any():
        out.append("some requests need more cache than an instance has: they were rejected")
    return tuple(out)
