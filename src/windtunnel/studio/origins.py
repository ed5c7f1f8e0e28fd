"""What a shown number is made of: its words, the numbers that it is computed from, and the chain behind it.

The chain itself is that of `windtunnel explain --json`. Here is which part of it a figure rests on, and the arithmetic
between the two, which tests repeat on real results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windtunnel.scenarios.source import Source

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What figures of one kind are made of."""

    pattern: str
    """Regular expression of the whole path in the result; its first group is put for `{}` in `words` and `inputs`."""
    words: str
    inputs: tuple[str, ...] = ()
    """Paths of the figures that it is computed from."""
    part: str = ""
    """What of the chain stands behind it: `step`, `class` (the group), `memory`, `prompts`, `decode`, `capacity`, `run`
    or `price`."""
    computed: Callable[[dict[str, Any]], float] | None = None
    """The value from its inputs alone."""


def _peak(r: dict[str, Any]) -> float:
    return float(r["memory"]["reserved_by_allocator_bytes"]) + float(
        r["memory"]["communication_buffer_bytes"] + r["memory"]["context_bytes"]
    )


_PRICE = "price of the device an hour, times devices"
TRAIN = (
    Origin(
        pattern="step_time_s",
        part="step",
        computed=lambda r: sum(r["breakdown"].values()),
        words="Seconds of one optimizer step: the classes of time of the pipeline stage that finishes last, added up.",
        inputs=("breakdown",),
    ),
    Origin(
        pattern=r"breakdown\.(.+)",
        words="Seconds of the step that belong to {}, as far as nothing hides them.",
        part="class",
    ),
    Origin(
        pattern="tokens_per_s",
        words="Tokens of the global batch over the seconds of the step.",
        part="step",
        inputs=("scenario.training.global_batch", "scenario.training.seq_len", "step_time_s"),
        computed=lambda r: (
            r["scenario"]["training"]["global_batch"] * r["scenario"]["training"]["seq_len"] / r["step_time_s"]
        ),
    ),
    Origin(
        pattern="tokens_per_s_per_device",
        words="Tokens a second over the number of devices.",
        part="step",
        inputs=("tokens_per_s", "num_devices"),
        computed=lambda r: r["tokens_per_s"] / r["num_devices"],
    ),
    Origin(
        pattern="model_tflops_per_device",
        part="step",
        inputs=("model_flop_per_token", "tokens_per_s_per_device"),
        words="FLOPs that the model needs for a token, without recomputation, times tokens a second and device.",
        computed=lambda r: r["model_flop_per_token"] * r["tokens_per_s_per_device"] / 1e12,
    ),
    Origin(
        pattern="(mfu)",
        part="step",
        inputs=("model_tflops_per_device", "step_time_s"),
        words="Model FLOPs a second over the data sheet's dense matrix rate of the precision.",
    ),
    Origin(
        pattern="peak_memory_allocated_bytes",
        words="Tensors alive at the peak of the fullest stage, added up.",
        part="memory",
        inputs=("memory.at_peak",),
        computed=lambda r: sum(r["memory"]["at_peak"].values()),
    ),
    Origin(
        pattern="peak_memory_reserved_bytes",
        part="memory",
        computed=_peak,
        words="What the allocator holds at its peak, with buffers of collectives and the device's context.",
        inputs=("memory.reserved_by_allocator_bytes", "memory.communication_buffer_bytes", "memory.context_bytes"),
    ),
    Origin(
        pattern=r"memory\.at_peak\.(.+)",
        words="Bytes of {} that are alive when the fullest stage peaks.",
        part="memory",
    ),
    Origin(
        pattern="memory_fits",
        words="Whether the reserved peak stays below the capacity of the device.",
        part="memory",
        inputs=("peak_memory_reserved_bytes", "memory.capacity_bytes", "memory.fit_probability"),
    ),
    Origin(
        pattern="num_devices",
        words="Nodes times devices of a node, as the scenario sets them.",
        inputs=("scenario.cluster.nodes", "scenario.cluster.devices_per_node"),
    ),
    Origin(
        pattern="bound_by",
        words="The resource of which 10 % more would shorten the step most.",
        part="step",
        inputs=("sensitivities",),
    ),
    Origin(
        pattern="mean_power_w",
        words="Energy of a token times tokens a second and device.",
        part="step",
        inputs=("energy_per_token_j", "tokens_per_s_per_device", "clock"),
        computed=lambda r: r["energy_per_token_j"] * r["tokens_per_s_per_device"],
    ),
    Origin(
        pattern="cost_per_million_tokens",
        words=f"The {_PRICE}, over tokens an hour, for a million tokens.",
        part="price",
        inputs=("num_devices", "tokens_per_s"),
    ),
)
SERVE = (
    Origin(
        pattern=r"ttft_s\.(\w+)",
        part="prompts",
        inputs=("queue_s.{}",),
        words="Time to the first token over the requests: waiting, then the iterations that compute the prompt.",
    ),
    Origin(
        pattern=r"(?:tpot_s|itl_s)\.(\w+)",
        part="decode",
        inputs=("iterations.mean_s",),
        words="Time between tokens of an answer over the requests: iterations that decode, and prompts between them.",
    ),
    Origin(
        pattern=r"e2e_s\.(\w+)",
        part="decode",
        inputs=("ttft_s.{}", "tpot_s.{}"),
        words="Time from the request to the last token over the requests.",
    ),
    Origin(
        pattern="output_tokens_per_s",
        part="decode",
        inputs=("completed", "duration_s"),
        words="Tokens of the answers over the seconds of the run; where arrivals are open, in its steady part.",
    ),
    Origin(
        pattern="slo_attainment",
        part="prompts",
        inputs=("scenario.serving.slo",),
        words="Share of the requests that keep to every limit of the objective.",
    ),
    Origin(
        pattern="(saturated)",
        words="Whether the queue grows until the last arrival.",
        part="decode",
        inputs=("waiting_mean",),
    ),
    Origin(
        pattern=r"kv_cache_usage_(\w+)",
        words="Blocks of the cache in use over those that fit beside the weights.",
        part="capacity",
        inputs=("capacity.tokens", "capacity.cache_bytes", "capacity.bytes_per_token"),
    ),
    Origin(
        pattern="bound_by", words="The largest class of each kind of iteration, and why requests wait.", part="decode"
    ),
    Origin(
        pattern="cost_per_million_output_tokens",
        words=f"The {_PRICE}, over output tokens an hour, for a million.",
        part="price",
        inputs=("num_devices", "output_tokens_per_s"),
    ),
)
RUN = (
    Origin(
        pattern=r"days\.(\w+)",
        part="run",
        inputs=("ideal_days", "goodput", "failures_mean"),
        words="Wall time of the replications: work that counts, and every class of lost time.",
    ),
    Origin(
        pattern="ideal_days",
        part="step",
        inputs=("step_time_s", "steps"),
        words="Seconds of a step times steps, without disturbance.",
        computed=lambda r: r["step_time_s"] * r["steps"] / DAY_S,
    ),
    Origin(
        pattern="goodput",
        part="run",
        inputs=("seconds.work", "days.mean"),
        words="Seconds of steps that count, at the undisturbed speed, over the mean wall time.",
        computed=lambda r: r["seconds"]["work"] / (r["days"]["mean"] * DAY_S),
    ),
    Origin(
        pattern=r"badput\.(.+)",
        words="Share of the mean wall time that is lost to {}.",
        part="run",
        inputs=("days.mean",),
    ),
    Origin(
        pattern="failures_mean",
        part="run",
        inputs=("failures_by_cause", "failure_profile", "days.mean"),
        words="Failures of the job in the mean of the replications, drawn at the rates of the failure profile.",
    ),
    Origin(
        pattern="checkpoint.interval_s",
        inputs=("checkpoint.young_s", "checkpoint.daly_s", "checkpoint.blocking_s"),
        part="run",
        words="Seconds between saves; Young's and Daly's intervals stand beside it.",
    ),
    Origin(
        pattern="(cost)", words=f"The {_PRICE}, over the hours that they are held.", part="price", inputs=("days.mean",)
    ),
    Origin(
        pattern="energy_kwh",
        words="Watts of a step while steps run, idle watts else, times `pue`.",
        part="step",
        inputs=("seconds.work",),
    ),
    Origin(pattern="carbon_kg", words="Energy times what the grid emits.", part="step", inputs=("energy_kwh",)),
)
REASON = (
    Origin(
        pattern="accuracy",
        words="Share of problems that end right: the law of success over problems, and what the strategy makes of it. "
        "It is never simulated; its grade says where the law comes from.",
        inputs=("accuracy_grade", "accuracy_interval", "n"),
    ),
    Origin(
        pattern="cost_usd",
        words="The price of all devices from the first arrival to the last end, over the problems.",
        part="price",
        inputs=("usd_per_day", "problems_per_s"),
        computed=lambda r: r["usd_per_day"] / DAY_S / r["problems_per_s"],
    ),
    Origin(
        pattern="energy_j",
        words="Energy of all devices from the first arrival to the last end, over the problems.",
        inputs=("num_devices", "busy_share", "problems_per_s"),
    ),
    Origin(
        pattern=r"latency_s\.(.+)",
        words="{} over the problems of the run, each from its arrival until its last call has ended.",
        inputs=("bound_by", "busy_share"),
    ),
    Origin(
        pattern="(tokens|prompt_tokens|cached_tokens|calls)",
        words="{} of a problem, in the mean of the run, those of scores and of calls that were taken back included.",
    ),
    Origin(pattern="num_devices", words="Devices of all instances: those that answer and those that score."),
    Origin(
        pattern=r"answers\.break_even\.(\d+)\.tokens_a_day",
        words="Price of the devices a day, over what the API asks for a problem, times the tokens of a problem.",
        inputs=("answers.break_even.{}.api_usd_a_problem", "answers.break_even.{}.problems_a_day"),
    ),
    Origin(
        pattern=r"answers\.break_even\.(\d+)\.share_of_capacity",
        words="Problems a day at the even point, over what the devices do in a day with all problems there at once.",
        inputs=("answers.break_even.{}.problems_a_day", "answers.break_even.{}.share_of_capacity_interval"),
    ),
    Origin(
        pattern=r"answers\.verifier_worth\.(\d+)\.worth_usd",
        words="What the same accuracy costs without scores, less what it costs with them.",
        inputs=("answers.verifier_worth.{}.cost_without_usd", "answers.verifier_worth.{}.cost_usd"),
    ),
)
"""Figures of one candidate by their names in it, and of the answers."""
ORIGINS: dict[str, tuple[Origin, ...]] = {"train": TRAIN, "serve": SERVE, "run": RUN, "reason": REASON}
_ONE_OF = {"serve_curve": r"^(points\.\d+|knee|best_goodput)\.", "reason": r"^(candidates\.\d+|front\.\d+|best)\."}
"""Verb → where a result holds one of several answers of the same fields."""
_LOADS = {"rate": "rate_per_s", "concurrency": "concurrency", "time_scale": "time_scale"}


def origin_of(verb: str, path: str) -> dict[str, Any]:
    """What a figure is made of: path, words, inputs and part; words are empty where the verb has no chain for it.

    Args:
        verb: train, serve, run …; figures of `serve_curve` are those of `serve` at their load.
        path: of the figure in the result of the verb.
    """
    known = "serve" if verb == "serve_curve" else verb
    own = re.sub(_ONE_OF[verb], "", path) if verb in _ONE_OF else path
    for one in ORIGINS.get(known, ()):
        if found := re.fullmatch(one.pattern, own):
            group = found.group(1).replace("_", " ") if found.groups() else ""
            raw = found.group(1) if found.groups() else ""
            inputs = [name.replace("{}", raw) for name in one.inputs]
            return {
                "path": own,
                "words": one.words.replace("{}", group),
                "inputs": inputs,
                "part": one.part,
                "group": raw,
            }
    return {"path": own, "words": "", "inputs": [], "part": "", "group": ""}


def at_load(scenario: dict[str, Any], axis: str, load: float) -> dict[str, Any]:
    """The scenario with the load of one point of a load curve.

    Args:
        scenario: fields.
        axis: rate, concurrency or time_scale.
        load: in the units of the axis.
    """
    serving = scenario.get("serving")
    if not isinstance(serving, dict) or axis not in _LOADS:
        return scenario
    traffic = dict(serving.get("traffic") or {})
    for name in ("rate", "rate_per_s", "concurrency", "time_scale", "offline"):
        traffic.pop(name, None)
    traffic[_LOADS[axis]] = int(load) if axis == "concurrency" else load
    return {**scenario, "serving": {**serving, "traffic": traffic}}


def data_sheet(source: Source) -> tuple[dict[str, Any], ...]:
    """Values of the data sheet of the scenario's (first) device, each with its source; empty where it has none.

    Returns:
        Rows of name, value, unit, source.
    """
    from windtunnel import catalog
    from windtunnel.errors import WindtunnelError
    from windtunnel.scenarios.load import load

    try:
        scenario, _, _ = load(source)
        device = catalog.resolve_cluster(scenario.cluster).device
    except (WindtunnelError, AttributeError):
        return ()
    return tuple(
        {"name": words, "value": getattr(device, field), "unit": unit, "source": device.sources.get(field, "")}
        for field, words, unit in _SHEET
        if getattr(device, field, None)
    )


_SHEET = (
    ("memory_bytes", "device memory", "B"),
    ("memory_bytes_per_s", "device memory bandwidth", "B/s"),
    ("tdp_w", "board power", "W"),
    ("idle_w", "idle power", "W"),
    ("price_per_hour", "price an hour", "USD"),
)
