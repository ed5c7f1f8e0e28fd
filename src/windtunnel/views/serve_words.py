"""Serving in words: what was deployed, which traffic it had, its objective, its caches and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.quantities import count, percent, seconds, three
from windtunnel.training.results.one_line import cluster_text, model_text

if TYPE_CHECKING:
    from windtunnel.serving.results.serving_result import ServingResult

SATURATED = (
    "Saturated: requests arrive faster than they are served. The queue grows for as long as they come, so latencies "
    "depend on how long the run was; there is no steady state."
)


def deployment_line(result: ServingResult) -> str:
    """Model, devices, engine and precision."""
    data = result.scenario
    serving = data.get("serving") or {}
    engine = " ".join(str(v) for v in (serving.get("engine", "vllm"), serving.get("engine_version")) if v)
    decided = {a["field"]: a["value"] for a in result.assumed}
    precision = {
        part: decided[f"serving.precision.{part}"]
        for part in ("weights", "experts")
        if f"serving.precision.{part}" in decided
    } | (serving.get("precision") or {})
    weights = precision.get("weights", "bf16")
    formats = [f"{weights} weights"]
    if precision.get("experts", weights) != weights:
        formats.append(f"{precision['experts']} experts")
    if precision.get("kv_cache", "bf16") != "bf16":
        formats.append(f"{precision['kv_cache']} cache")
    parts = [model_text(data.get("model")), cluster_text(data.get("cluster"), result.num_devices), engine]
    return " · ".join(p for p in (*parts, ", ".join(formats)) if p)


def window_text(result: ServingResult) -> str:
    """Which part of an open loop its rates are of, and what the whole run gives; empty where that is the same."""
    if result.measured_in_s is None or result.drain_s < 0.05 * result.duration_s:
        return ""
    begin, end = result.measured_in_s
    return (
        f"measured from {seconds(begin)} to the last arrival at {seconds(end)}; the last answers drain for "
        f"{seconds(result.drain_s)}, with which it is {count(round(result.whole_run_output_tokens_per_s))} tokens/s"
    )


def slo_of(result: ServingResult) -> dict[str, float]:
    """The objective's parts in seconds by measure, and its percentile."""
    from windtunnel.specs.serving import SloSpec

    stated = (result.scenario.get("serving") or {}).get("slo") or {}
    slo = SloSpec.model_validate(stated)
    parts = {"ttft": slo.ttft_s, "tpot": slo.tpot_s, "e2e": slo.e2e_s}
    return {"percentile": slo.percentile, **{name: float(value) for name, value in parts.items() if value is not None}}


_OF_EVERY_SERVER = "requests wait because an iteration is under way"
"""What a server without a queue has in common with every other: it names no limit."""


def limits_of(bound_by: str) -> list[str]:
    """What bounds a server, a line each; nothing of requests that wait for no more than the next iteration.

    Example:
        >>> limits_of("decode by reading weights; requests wait because an iteration is under way (100 %)")
        ['decode by reading weights']
    """
    return [line for line in bound_by.replace(". ", "; ").split("; ") if not line.startswith(_OF_EVERY_SERVER)]


def short(value: float) -> str:
    """Seconds with three digits, for narrow tables: `122 ms`, `8.15 s`."""
    if value != value:
        return "–"
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g} {unit}" if value < 999.5 * size else f"{value / size:,.0f} {unit}"
    return "0 s"


def tiers_text(tiers: dict[str, Any]) -> str:
    """Say where prompt tokens were found, KV tier by KV tier, and what was lent."""
    found = [f"{percent(own['hit_rate'])} {name}" for name, own in tiers.items() if "hit_rate" in own]
    lines = [f"by KV tier: {', '.join(found)}"] if found else []
    lines += [
        f"{name} is asked to write more than it can ({percent(own['writing_share'])} of its rate)"
        for name, own in tiers.items()
        if own.get("writing_share", 0.0) > 1.0
    ]
    if lent := tiers.get("lending"):
        exchanged = percent(lent["exchange_share"])
        lines.append(f"up to {percent(lent['most_lent_share'])} of all blocks were lent; exchanges took {exchanged}")
    return "\n".join(lines)


def traffic_line(result: ServingResult, *, load: bool = True) -> str:
    """How requests come and how long they are; without `load`, what points of a sweep have in common."""
    t = (result.scenario.get("serving") or {}).get("traffic") or {}
    parts = [f"{result.requests:,} request" + "s" * (result.requests != 1)]
    if t.get("trace"):
        parts.append(f"trace {t['trace']}")
    if load and t.get("time_scale", 1.0) != 1.0:
        parts.append(f"at {t['time_scale']:g} times its rate")
    if not load:
        pass
    elif t.get("concurrency"):
        parts.append(f"{t['concurrency']:,} in flight")
    elif t.get("rate_per_s"):
        process = t.get("process", "poisson")
        if process == "gamma":
            process = f"gamma, burstiness {t.get('burstiness', 1.0):g}"
        parts.append(f"{t['rate_per_s']:g}/s ({process})")
    elif t.get("offline"):
        parts.append("all at the start")
    for name, word in (("input_tokens", "prompts"), ("output_tokens", "answers")):
        if name in t:
            parts.append(f"{word} {lengths_text(t[name])}")
    if t.get("shared_prefix_tokens"):
        parts.append(f"{t['shared_prefix_tokens']:,} tokens shared by all")
    if t.get("sessions"):
        parts.append("several turns a session")
    return " · ".join(parts)


def lengths_text(value: Any) -> str:
    """A length or distribution of lengths: `1,024`, `lognormal, mean 1,024`."""
    if not isinstance(value, dict):
        return f"{value:,}" if isinstance(value, int) else str(value)
    kind = value.get("distribution", "fixed")
    if kind == "uniform":
        return f"uniform {value.get('min', 1):,} to {value.get('max', 0):,}"
    if kind == "empirical":
        return f"drawn from {len(value.get('values', ())):,} lengths"
    mean = f"{value.get('mean', 0):,g}"
    return mean if kind == "fixed" else f"{kind}, mean {mean}"


def plan_chips(result: ServingResult) -> list[tuple[str, str]]:
    """Axes of an instance, then its limits as resolved."""
    serving = result.scenario.get("serving") or {}
    pools = serving.get("pools") or ()
    plan = (pools[0].get("plan") if pools else result.scenario.get("plan")) or {}
    chips = [("instances", f"{result.instances:,}")]
    axes = ("tp", "pp", "dp", "ep", "cp")
    chips += [(axis, str(plan[axis])) for axis in axes if plan.get(axis, 1) not in (1, "auto")]
    if result.instances > 1:
        chips.append(("router", str(serving.get("router", "round_robin"))))
    if result.pools:
        words = " + ".join(f"{p['name']} {p['instances']} × tp {p['plan'].get('tp', 1)}" for p in result.pools)
        return [("pools", words), ("router", str(serving.get("router", "round_robin")))]
    for name, value in result.limits.items():
        if value is not None and value != "" and not isinstance(value, (dict, list, tuple)):
            chips.append((name, limit_text(value)))
    return chips


def limit_text(value: Any) -> str:
    """A limit: `8,192`, `0.9`, `on`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def objective_text(slo: dict[str, float]) -> str:
    """The objective as stated: `TTFT up to 1.00 s, TPOT up to 50.00 ms for 90 % of requests`; empty without one."""
    parts = [f"{name.upper()} up to {short(slo[name])}" for name in ("ttft", "tpot", "e2e") if name in slo]
    return f"{', '.join(parts)} for {percent(slo['percentile'], 0)} of requests" if parts else ""


def verdict_text(result: ServingResult) -> str:
    """Whether the objective was met."""
    share = percent(result.slo_attainment)
    return f"met by {share} of requests" + ("" if result.slo_met else ": missed")


def grades_text(grades: dict[str, str]) -> str:
    """What each figure rests on: `TTFT fitted · throughput analytic`."""
    words = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E", "output_tokens_per_s": "throughput"}
    return " · ".join(f"{words.get(name, name)} {grade}" for name, grade in grades.items() if name != "itl_s")


def drafts_text(found: dict[str, Any]) -> str:
    """Summarise a run's speculation."""
    rates = ", ".join(f"{a:g}" for a in dict.fromkeys(found["acceptance"]))
    return (
        f"{found['tokens']} a step by {found['method']}, accepted with {rates}: {found['accepted_length_mean']:.3g} "
        f"tokens a step, {100 * found['draft_share_of_decode']:.2g} % of a decode step drafts"
    )


def tasks_text(tasks: dict[str, dict[str, Any]]) -> str:
    """Describe tasks of agents and searches from end to end, one in each row of text."""
    lines = []
    for name, found in tasks.items():
        if name == "all" and len(tasks) == 2:
            continue
        took = found["latency_s"]
        line = (
            f"{name}: {count(found['tasks'])} of {three(found['calls_per_task'])} requests; each takes "
            f"{seconds(took['mean'])}, p99 {seconds(took['p99'])}"
        )
        if "held_tokens" in found:
            line += f"; holds {found['held_tokens']:,.0f} tokens, {found['held_tokens_unshared']:,.0f} unshared"
        lines.append(line)
    return "\n".join(lines)
