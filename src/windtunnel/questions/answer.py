"""An answer in at most fourteen lines of eighty columns: what was read, the verdict, figures, and how sure they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from windtunnel.quantities import count, dollars, gib, percent, probability, seconds, signed_percent, three
from windtunnel.questions.reading import Reading
from windtunnel.questions.records import MOST_LINES, Answer, Found, Row, lines
from windtunnel.training.results.one_line import fit_tone, fit_words, model_text, plan_line

if TYPE_CHECKING:
    from windtunnel.planner.rank_devices import DeviceRanking
    from windtunnel.runs.results import RunResult
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.views.view import Tone

_CELLS = 30
"""Columns of the gauge."""


_SHORT = {
    "seq_len": "sequence", "global_batch": "batch", "input_tokens": "prompts", "output_tokens": "answers",
    "ttft_s": "TTFT", "tpot_s": "TPOT", "rate_per_s": "requests/s",
    "memory_fraction": "share of memory",
}  # fmt: skip
"""End of a field → what it is called in an answer."""


def answer_of(reading: Reading, found: Found) -> Answer:
    """The answer of a question."""
    shown = found.result if found.shown is None else found.shown
    if found.result is None:
        verdict, rows = _nothing(found)
    elif found.scenario["cluster"]["device"] == "any":
        verdict, rows = _ranking(found.result)
    elif found.asked.task == "serve":
        verdict, rows = _serving(found, shown)
    elif found.step is not None:
        verdict, rows = _run(found, shown, found.step)
    else:
        verdict, rows = _step(found, shown)
    if found.each:
        best = found.best or (found.step or shown).scenario["cluster"]["device"]
        verdict = Row("verdict", f"Best: {best}. {verdict.text}", verdict.tone, 2)
    if found.longest:
        verdict = Row(
            "verdict", f"Longest context that fits: {found.longest:,} tokens. {verdict.text}", verdict.tone, 2
        )
    read = (*_read(found), *_assumed(found, reading.unused), verdict)
    return Answer(
        words=reading.words,
        command=found.asked.command,
        scenario=found.scenario,
        verdict=verdict.text,
        rows=tuple(_fitting([*read, *_alternatives(found), *rows])),
        assumed=found.asked.assumed,
        result=found.result,
        taken=found.taken,
    )


def _alternatives(found: Found) -> Iterator[Row]:
    """Of a comparison of devices, the best of each; of a question without a task, what serving would say."""
    if found.served:
        yield Row("to serve it", found.served)
    for device, result in found.each:
        yield Row(device.partition("-")[0], "no plan does" if result is None else _figure(result))


def _figure(result: Any) -> str:
    """A prediction on one device in a few figures."""
    if hasattr(result, "step_time_s"):
        cost = result.cost_per_million_tokens
        parts = [f"step {seconds(result.step_time_s)}", f"{count(result.tokens_per_s)} tokens/s"]
    else:
        cost = result.cost_per_million_output_tokens
        parts = [
            f"{result.num_devices:,} device{'s' * (result.num_devices > 1)}",
            f"{three(result.throughput_requests_per_s)} requests/s",
            f"TPOT {seconds(result.tpot_s.p50)}",
        ]
    return " · ".join([*parts, *([] if cost is None else [f"{dollars(cost)} a million tokens"])])


def _fitting(rows: list[Row]) -> list[Row]:
    """At most fourteen lines: the last row but one goes first."""
    while len(lines(rows)) > MOST_LINES and len(rows) > 4:
        rows = [*rows[:-2], rows[-1]]
    return rows


# -- what was read -----------------------------------------------------------------------------------------------------
def _read(found: Found) -> Iterator[Row]:
    """What was read, as fields of the scenario."""
    data, words = found.scenario, {"train": "train", "finetune": "fine-tune", "serve": "serve"}[found.asked.task]
    parts = [f"{words} {model_text(data['model'])} on {_devices(found)}"]
    said = {name for name, _, _ in found.asked.assumed}
    training, serving = data.get("training") or {}, data.get("serving") or {}
    for name, text in _fields(data, training, serving):
        if name not in said:
            parts.append(text)
    yield Row("read", " · ".join(parts), "", 3)


def _fields(data: dict[str, Any], training: dict[str, Any], serving: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Field → the number that was taken."""
    for name, text in (("seq_len", "sequence {:,}"), ("global_batch", "batch {:,}")):
        if name in training:
            yield f"training.{name}", text.format(training[name])
    for name in ("precision", "framework", "optimizer"):
        if name in training:
            yield f"training.{name}", str(training[name])
    if training.get("phase") == "lora":
        lora = training.get("lora") or {}
        rank = f" rank {lora['rank']}" if "rank" in lora else ""
        yield "training.lora", ("QLoRA (nf4)" if lora.get("quantized_base") else "LoRA") + rank
    elif training.get("phase") == "sft":
        yield "training.phase", "all weights"
    for name in ("tokens", "steps"):
        if value := (data.get("run") or {}).get(name):
            yield f"run.{name}", f"{count(value)} {name}"
    limits, run = (data.get("search") or {}).get("limits") or {}, data.get("run") or {}
    if "memory_fraction" in limits:
        yield "search.limits.memory_fraction", f"at most {percent(limits['memory_fraction'], 0)} of the memory"
    for name, text in (("power", "at most {:,.0f} W in all"), ("cost_per_hour", "at most ${:g} an hour")):
        if limits.get(name) is not None:
            yield f"search.limits.{name}", text.format(limits[name])
    if "spares" in (run.get("recovery") or {}):
        yield "run.recovery.spares", f"{run['recovery']['spares']} spares"
    if "price_per_kwh" in (data.get("run") or {}):
        yield "run.price_per_kwh", f"{dollars(data['run']['price_per_kwh'])} a kWh"
    traffic, slo = serving.get("traffic") or {}, serving.get("slo") or {}
    if "concurrency" in traffic:
        yield "serving.traffic.concurrency", f"{traffic['concurrency']:,} requests in flight"
    elif traffic.get("offline"):
        yield "serving.traffic.offline", "offline"
    elif "rate_per_s" in traffic and not _finds_load(data, slo):
        yield "serving.traffic.rate_per_s", f"{three(traffic['rate_per_s'])} requests/s"
    for name, text in (("input_tokens", "prompts {:,}"), ("output_tokens", "answers {:,} tokens")):
        if name in traffic:
            yield f"serving.traffic.{name}", text.format(traffic[name])
    if "shared_prefix_tokens" in traffic:
        yield "serving.traffic.shared_prefix_tokens", f"shared prefix {traffic['shared_prefix_tokens']:,}"
    for name, text in (("ttft_s", "TTFT ≤ {}"), ("tpot_s", "TPOT ≤ {}"), ("e2e_s", "E2E ≤ {}")):
        if slo.get(name) is not None:
            yield f"serving.slo.{name}", text.format(seconds(slo[name]))
    if "percentile" in slo:
        yield "serving.slo.percentile", f"for {percent(slo['percentile'], 0)} of requests"
    precision = serving.get("precision") or {}
    formats = {part: precision[part] for part in ("weights", "experts") if precision.get(part)}
    if formats.get("experts") == formats.get("weights"):
        formats.pop("experts", None)
    for part, form in formats.items():
        yield f"serving.precision.{part}", f"{part} {form}"
    if precision.get("kv_cache") not in (None, "bf16"):
        yield "serving.precision.kv_cache", f"KV cache {precision['kv_cache']}"
    if draft := serving.get("speculation"):
        name = f" {model_text(draft['draft'])}" if draft.get("draft") else ""
        yield "serving.speculation", f"{draft['tokens']} tokens drafted by {draft['method']}{name}"
    if serving.get("engine"):
        yield "serving.engine", str(serving["engine"])
    cluster = data.get("cluster")
    if isinstance(cluster, dict) and "scale_out" in cluster:
        ports = cluster["scale_out"]
        rate = f"{8e-9 * ports['nic_bytes_per_s']:,.0f} Gbit/s"
        yield "cluster.scale_out", f"{ports['nics_per_node']} × {rate} a node"
    if isinstance(cluster, dict) and "power_cap_w" in cluster:
        yield "cluster.power_cap_w", f"{cluster['power_cap_w']:,.0f} W a device"
    if isinstance(cluster, dict) and "price_per_device_hour" in cluster:
        yield "cluster.price_per_device_hour", f"{dollars(cluster['price_per_device_hour'])} a device hour"


def _finds_load(data: dict[str, Any], slo: dict[str, Any]) -> bool:
    """Whether the load was looked for."""
    return bool((data.get("search") or {}).get("objective") == "goodput" and slo)


def _devices(found: Found) -> str:
    """How many devices of which kind."""
    cluster = found.scenario["cluster"]
    nodes, each = cluster["nodes"], cluster["devices_per_node"]
    if cluster["device"] == "any":
        return f"{nodes * each:,} devices, any that has a price"
    shown = found.step or found.shown or found.result
    if found.asked.devices is None and _is_fewest(found) and hasattr(shown, "num_devices"):
        return f"{shown.num_devices:,} × {cluster['device']} (fewest)"
    if found.each:
        names = " or ".join(name for name, _ in found.each)
        if found.best:
            return names if " × " in names else f"{nodes * each:,} × {cluster['device']} with {names}"
        return f"{nodes * each:,} × {names}"
    return f"{nodes * each:,} × {cluster['device']}" + (f" ({nodes:,} nodes of {each})" if nodes > 1 else "")


def _too_few(found: Found) -> str:
    """The largest number of devices that does not do."""
    return "One device is too few." if found.too_few == 1 else f"{found.too_few:,} devices are too few."


def _is_fewest(found: Found) -> bool:
    """Whether the number of devices is the smallest that does."""
    return found.asked.task != "serve" or (found.asked.objective == "devices" and found.infeasible is None)


def _assumed(found: Found, unused: tuple[str, ...]) -> Iterator[Row]:
    """What was not said, with the number taken, and the words that changed nothing."""
    parts = []
    for name, value, why in found.asked.assumed:
        shown = (
            seconds(value)
            if name.endswith("_s") and "slo" in name
            else f"{value:,}"
            if isinstance(value, int)
            else value
        )
        words = _SHORT.get(name.rpartition(".")[2])
        note = "" if why == "not said" else f" ({why.removeprefix('not said; ')})"
        parts.append(f"{words or name.rpartition('.')[2]} {shown}{note}")
    if parts:
        yield Row("assumed", ", ".join(parts), "dim", 2)
    if unused:
        yield Row("not used", ", ".join(unused), "dim")


# -- training ----------------------------------------------------------------------------------------------------------
def fit_verdict(result: TrainingResult) -> Row:
    """Whether memory suffices, coloured by the probability."""
    chance, fits = result.memory.fit_probability, result.memory_fits
    chance = None if result.memory.overfull else chance  # it is not the device that is too small
    return Row("verdict", f"{fit_words(chance, fits=fits).capitalize()}.", fit_tone(chance, fits=fits), 2)


def _step(found: Found, result: TrainingResult) -> tuple[Row, list[Row]]:
    verdict = fit_verdict(result)
    if found.too_few and result.memory_fits:
        verdict = Row("verdict", f"{verdict.text} {_too_few(found)}", verdict.tone, 2)
    band = result.interval
    rows = []
    if result.memory_fits:
        time = f"step {seconds(result.step_time_s)} (80 %: {seconds(band.low)} to {seconds(band.high)})"
        rows = [
            Row("time", f"{time} · {count(result.tokens_per_s)} tokens/s"),
            Row("efficiency", f"MFU {percent(result.mfu)}{_money(result)}"),
        ]
    rows += [_memory(result), Row("plan", found.no_plan, "", 3) if found.no_plan else _plan(result)]
    if result.memory_fits:
        rows += [_bound(result), *_help(result)]
    else:
        largest = sorted(result.memory.at_peak.items(), key=lambda item: -item[1])[:3]
        rows.append(Row("what binds", "memory: " + ", ".join(f"{kind} {gib(size)}" for kind, size in largest)))
        rows.append(Row("would help", ", ".join(_smaller(found.scenario)), "", 2))
    width = band.high / result.step_time_s - 1 if result.memory_fits else None
    return verdict, [*rows, _sure(result.memory.fit_probability, width, band.grade)]


def _smaller(scenario: dict[str, Any]) -> Iterator[str]:
    """What makes a step that does not fit smaller, and is not done yet."""
    training = scenario["training"]
    yield "more devices (`how many … do I need`)"
    if training["global_batch"] > 1:
        yield "a smaller batch"
    if training["seq_len"] > 2048:
        yield "shorter sequences"
    if training.get("phase") != "lora":
        yield "lora or qlora"
    elif not (training.get("lora") or {}).get("quantized_base"):
        yield "qlora"


def _money(result: TrainingResult) -> str:
    cost = result.cost_per_million_tokens
    watts = f" · {result.mean_power_w:,.0f} W a device" if result.mean_power_w else ""
    return watts + ("" if cost is None else f" · {dollars(cost)} a million tokens")


def gauge(used: float, capacity: float) -> str:
    """A bar with what is used of what there is."""
    full = min(round(_CELLS * used / capacity), _CELLS) if capacity > 0 else _CELLS
    return f"{'█' * full}{'░' * (_CELLS - full)} {gib(used).removesuffix(' GiB')} of {gib(capacity)}"


def _memory(result: TrainingResult) -> Row:
    used, capacity = result.peak_memory_reserved_bytes, result.memory.capacity_bytes
    return Row("memory", f"{gauge(used, capacity)} a device", "" if result.memory_fits else "bad")


def _plan(result: TrainingResult) -> Row:
    return Row("plan", plan_line(result.plan), "", 2)


def _bound(result: TrainingResult) -> Row:
    most = sorted(result.breakdown.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{name} {percent(value / result.step_time_s, 0)}" for name, value in most)
    return Row("what binds", f"{result.bound_by} ({parts})")


def _help(result: TrainingResult) -> Iterator[Row]:
    """The resources of which 10 % more save most."""
    best = sorted(result.sensitivities.items(), key=lambda item: item[1])[:2]
    parts = [f"{name} {signed_percent(change)}" for name, change in best if change < -0.0005]
    if parts:
        yield Row("would help", f"10 % more of it: {', '.join(parts)}")


def _sure(chance: float | None, width: float | None, grade: str, *, margin: bool = True) -> Row:
    """How sure verdict and time are: by the probability, and by how far the interval reaches above.

    Args:
        chance: probability that memory suffices; None where it does not decide.
        width: upper end of the interval of the time over its middle, less one; None where no time is shown.
        grade: of the interval.
        margin: of a deployment, whether the objective holds at the upper end too.
    """
    shown, width = width is not None, width or 0.0
    likely = 1.0 if chance is None else max(chance, 1 - chance)
    word = (
        "sure" if likely >= 0.95 and width <= 0.1 and margin
        else "likely" if likely >= 0.8 and width <= 0.3 and margin
        else "uncertain" if likely >= 0.6 and width <= 1.0
        else "open"
    )  # fmt: skip
    parts = [f"time up to {percent(width, 0)} longer"] if shown else []
    parts += [] if chance is None else [f"verdict {probability(likely)}"]
    parts += [] if margin else ["the objective holds at the central prediction alone"]
    return Row("how sure", f"{word}: {', '.join(parts)} ({grade})", "", 2)


# -- whole runs --------------------------------------------------------------------------------------------------------
def _run(found: Found, result: RunResult, step: TrainingResult) -> tuple[Row, list[Row]]:
    days, band = result.days["mean"], result.interval
    text, tone = f"{three(days)} days for {count(result.tokens)} tokens", "good"
    if found.asked.deadline_days is not None:
        kept = days <= found.asked.deadline_days
        text, tone = (
            f"{text}: {'inside' if kept else 'misses'} {three(found.asked.deadline_days)} days",
            ("good" if kept else "bad"),
        )
    if found.asked.budget is not None and result.cost is not None:
        kept = result.cost <= found.asked.budget
        text += f"; {dollars(result.cost)} {'is within' if kept else 'exceeds'} {dollars(found.asked.budget)}"
        tone = tone if kept else "bad"
    few = f" {_too_few(found)}" if found.too_few else ""
    chance = step.memory.fit_probability
    memory = fit_verdict(step)
    verdict = Row("verdict", f"{text}. {memory.text}{few}", "bad" if tone == "bad" else memory.tone, 2)
    spread = f"(80 %: {three(band['low'])} to {three(band['high'])})"
    cost = "" if result.cost is None else f"{dollars(result.cost)} · "
    rows = [
        Row("time", f"{three(days)} days {spread}; goodput {percent(result.goodput)}"),
        Row("cost", f"{cost}{count(result.energy_kwh)} kWh · {three(result.failures_mean)} failures expected"),
        Row("step", f"{seconds(step.step_time_s)} · MFU {percent(step.mfu)}"),
        _memory(step),
        _plan(step),
        _bound(step),
    ]
    best = sorted(result.sensitivities.items(), key=lambda item: item[1])[:2]
    if parts := [f"{name} {signed_percent(change)}" for name, change in best if change < -0.0005]:
        rows.append(Row("would help", f"{', '.join(parts)} of the days"))
    return verdict, [*rows, _sure(chance, band["high"] / days - 1, step.interval.grade)]


# -- serving -----------------------------------------------------------------------------------------------------------
def _serving(found: Found, result: ServingResult) -> tuple[Row, list[Row]]:
    slo = (found.scenario["serving"].get("slo")) or {}
    asked = any(slo.get(name) is not None for name in ("ttft_s", "tpot_s", "e2e_s"))
    rate = f"{three(result.throughput_requests_per_s)} requests/s"
    tone: Tone = "good"
    if found.infeasible is not None and not found.too_few:
        text, tone = _without_objective(found, result), "bad"
    elif result.saturated and "rate_per_s" in found.scenario["serving"]["traffic"]:
        text, tone = "Too slow: requests arrive faster than they are served.", "bad"
    elif asked and not result.slo_met:
        text, tone = f"Misses the objective: {percent(result.slo_attainment)} of requests keep it.", "bad"
    elif asked and not found.upper:
        text, tone = f"Keeps the objective at {rate}, with no margin for the error of the prediction.", "warn"
    else:
        text = f"Serves {rate}" + (f"; {percent(result.slo_attainment)} keep the objective." if asked else ".")
    if "fit" in found.asked.wants:
        text = f"Fits. {text}"
    if limit := next((_CACHE_HOLDS.search(note) for note in result.warnings if _CACHE_HOLDS.search(note)), None):
        text += f" It starts with max_model_len {limit[1]} or less alone."
    if found.too_few:
        text += f" {_too_few(found)}"
    if found.central_devices and found.central_devices < result.num_devices:
        text += f" At the central prediction {found.central_devices:,} would do."
    ttft, tpot = result.ttft_s, result.tpot_s
    cost = result.cost_per_million_output_tokens
    watts = (result.power or {}).get("mean_w_per_device")
    money = "" if cost is None else f" · {dollars(cost)} a million output tokens"
    power = "" if not watts else f" · {watts:,.0f} W a device"
    rows = [
        Row(
            "latency",
            f"TTFT {seconds(ttft.p50)} (p90 {seconds(ttft.p90)}) · TPOT {seconds(tpot.p50)} (p90 {seconds(tpot.p90)})",
        ),
        Row("throughput", f"{count(result.output_tokens_per_s)} output tokens/s{money}{power}", "", 2),
        _served_memory(result),
        Row("deployment", _deployment(found, result), "", 2),
        Row("what binds", "; ".join(result.bound_by.split("; ")[:2]), "", 2),
        *_served_help(result),
    ]
    band = result.intervals.get("tpot_s")
    width = band["high"] / tpot.mean - 1 if band and tpot.mean else 1.0
    return Row("verdict", text, tone, 3), [
        *rows,
        _sure(None, width, str((band or {}).get("grade", "analytic")), margin=tone != "warn"),
    ]


def _without_objective(found: Found, result: ServingResult) -> str:
    """What becomes of a load at which no deployment keeps the objective that was assumed."""
    limits = " and ".join(f"{_SHORT[name.rpartition('.')[2]]} {seconds(value)}" for name, value, _ in found.given_up)
    asked = found.scenario["serving"]["traffic"].get("rate_per_s")
    if result.saturated and asked is not None:
        return f"Falls behind: of {three(asked)} requests/s it serves {three(result.throughput_requests_per_s)}."
    return f"Keeps up with the load, but not within {limits or 'usual times'}, which nobody asked for."


def _served_memory(result: ServingResult) -> Row:
    sizes = result.capacity
    parts = {name: float(sizes.get(f"{name}_bytes") or 0) for name in ("weights", "activations", "other", "cache")}
    used = parts["weights"] + parts["activations"] + parts["cache"] * result.kv_cache_usage_max
    return Row("memory", f"{gauge(used, sum(parts.values()))}, weights {gib(parts['weights'])}")


def _deployment(found: Found, result: ServingResult) -> str:
    serving = found.scenario["serving"]
    serving = {**serving, **(result.scenario.get("serving") or {})}
    pool = (serving.get("pools") or [{}])[0]
    axes = " ".join(f"{name} {size}" for name, size in (pool.get("plan") or {}).items() if size > 1 or name == "tp")
    limits = pool.get("limits") or {}
    batch = f" · max_num_seqs {limits['max_num_seqs']:,}" if "max_num_seqs" in limits else ""
    devices = f"{result.num_devices:,} device{'s' * (result.num_devices > 1)}"
    return f"{pool.get('replicas', 1)} × ({axes}) on {devices} · {serving.get('engine', 'vllm')}{batch}"


_CACHE_HOLDS = re.compile(r"refuses to start as stated: its cache holds ([\d,]+) tokens")
_FASTER = {
    "matrix products": "more matrix throughput, fp8 weights",
    "all-reduce": "a smaller tp, faster links",
    "cached keys and values": "an fp8 KV cache, shorter prompts",
    "kernel gaps": "CUDA graphs of more batch sizes, larger batches",
    "host": "a faster host, larger batches",
}
"""Largest class of an iteration's time → what makes it smaller."""


def _fewer_bits(result: ServingResult) -> str:
    """Formats of weights with fewer bytes than those of a deployment, in words; empty where it has the smallest."""
    from windtunnel.serving.iteration.instance_shape import stored_bytes

    size = stored_bytes((result.scenario.get("serving") or {}).get("precision", {}).get("weights") or "bf16")
    return "fewer bits of weights (fp8), " if size > 1.5 else "4-bit weights, " if size > 0.75 else ""


def _served_help(result: ServingResult) -> Iterator[Row]:
    decode = result.composition.get("decode iteration") or next(iter(result.composition.values()), {})
    if decode:
        name, value = max(decode.items(), key=lambda item: item[1])
        faster = f"{_fewer_bits(result)}faster memory" if name == "weights" else _FASTER.get(name)
        if faster:
            yield Row("would help", f"{faster}: {name} {percent(value / sum(decode.values()), 0)} of a step")


# -- the rest ----------------------------------------------------------------------------------------------------------
def _ranking(result: DeviceRanking) -> tuple[Row, list[Row]]:
    best = result.ranked[0]
    rows = []
    for place, one in enumerate(result.ranked[:5], 1):
        time = f"step {seconds(one.step_time_s)}" if one.step_time_s else f"TPOT {seconds(one.tpot_s or 0.0)}"
        price = f"{dollars(one.cost_per_million_tokens)} a million tokens"
        rows.append(
            Row(
                f"{place}.",
                f"{one.num_devices:,} × {one.device} · {price} · {dollars(one.cost_per_hour)} an hour · {time}",
            )
        )
    unpriced = f"{len(result.not_priced)} devices have no price; {len(result.without_plan)} have no plan"
    return Row("verdict", f"Cheapest: {best.num_devices:,} × {best.device}.", "good"), [
        *rows,
        Row("left out", unpriced),
        Row("how sure", "uncertain: list prices of the catalogue; intervals with -v"),
    ]


def _nothing(found: Found) -> tuple[Row, list[Row]]:
    assert found.infeasible is not None
    rows = [Row("nearest", found.infeasible.nearest_miss, "", 4)] if found.infeasible.nearest_miss else []
    return Row("verdict", f"No: {found.infeasible.message}.", "bad", 3), rows
