"""A scenario's step, scaled down to this machine, really run next to its prediction."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from windtunnel.calibration import machine as here
from windtunnel.calibration.profile import NOISY
from windtunnel.calibration.real import Job, Run, Way, run
from windtunnel.calibration.session import drift
from windtunnel.catalog.load import load
from windtunnel.errors import BadInput, Problem
from windtunnel.files.reading import read_text
from windtunnel.files.writing import write_text
from windtunnel.importers.model import resolve_model
from windtunnel.scenarios.source import Source
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.training.results.training_result import TrainingResult

HIDDEN, LAYERS, VOCAB, SEQ_LEN, INTERMEDIATE = 512, 4, 8192, 256, 2048
"""Most that a scaled-down step has on a CPU; a GPU runs eight times the width and layers, sixteen times the length."""
FRAMEWORKS: dict[str, str] = {
    "single": "ddp",
    "ddp": "ddp",
    "fsdp2": "torchtitan",
    "tp": "torchtitan",
    "pp": "torchtitan",
}
"""What a real step is like, as predictions know software."""
CHANGED = "this machine is not as fast as it was"
_CLASSES = {"gemm": "gemm", "attention": "attention", "memory bound": "memory bound", "optimizer": "optimizer"}


def doubts(scenario: dict[str, Any], ranks: int, precision: str) -> tuple[str, ...]:
    """What the profile did not measure of a step that was run: another number of processes, another format.

    Args:
        scenario: that was predicted, with its device written out.
        ranks: processes that ran.
        precision: they computed in.
    """
    device = scenario["cluster"]["device"]
    if not isinstance(device, dict):
        return ()
    out = []
    conditions = (device.get("profile") or {}).get("conditions", {})
    made = conditions.get("ranks")
    if made is not None and made != ranks:
        count = f"{made} process{'es' if made != 1 else ''}"
        out.append(f"the profile was measured with {count}, this ran {ranks}: `windtunnel calibrate --ranks {ranks}`")
    known = device.get("peak_flop_per_s", {})
    if known and precision not in known:
        out.append(f"the profile has no products in {precision}: predicted at the rate of {', '.join(known)}")
    return tuple(out)


def changed(profile: str, ranks: int, kind: Literal["cpu", "gpu"]) -> tuple[str, ...]:
    """Whether the machine is as fast as its profile says, by a few cases measured again."""
    ratios = drift(Path(profile).with_suffix(".jsonl"), ranks, kind)
    if not ratios or abs(math.log(statistics.median(ratios.values()))) <= math.log1p(NOISY):
        return ()
    said = ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items())
    return (f"{CHANGED}: seconds of cases now over those of its profile: {said}; calibrate again",)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A real loop of decoding next to its prediction."""

    scenario: dict[str, Any]
    changes: tuple[str, ...]
    predicted_tpot_s: float
    predicted_ttft_s: float
    run: Run
    doubts: tuple[str, ...] = ()
    """What the profile did not measure of it."""

    @property
    def tpot_s(self) -> float:
        """Median of the timed tokens."""
        return statistics.median(self.run.seconds)

    @property
    def error(self) -> float:
        """Predicted over measured time per token, less 1."""
        return self.predicted_tpot_s / self.tpot_s - 1.0

    @property
    def ttft_error(self) -> float:
        """Predicted over measured time of the prompt, less 1."""
        return self.predicted_ttft_s / self.run.prompt_s - 1.0

    def rows(self) -> list[dict[str, Any]]:
        """For the user's own validation set."""
        base = {"id": f"own-decode-{len(self.run.seconds)}", "family": "own", "scenario": self.scenario}
        return [
            {**base, "metric": "tpot_mean_ms", "unit": "ms", "value": 1e3 * self.tpot_s},
            {**base, "metric": "ttft_mean_ms", "unit": "ms", "value": 1e3 * self.run.prompt_s},
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "way": "decode",
            "scenario": self.scenario,
            "changes": list(self.changes),
            "tpot_s": {"predicted": self.predicted_tpot_s, "measured": self.tpot_s, "error": self.error},
            "ttft_s": {"predicted": self.predicted_ttft_s, "measured": self.run.prompt_s, "error": self.ttft_error},
            "tokens_s": list(self.run.seconds),
            "doubts": list(self.doubts),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """One real run next to its prediction."""

    way: Way
    scenario: dict[str, Any]
    """That was run and predicted."""
    changes: tuple[str, ...]
    """What was made smaller, in words."""
    predicted: TrainingResult
    run: Run
    doubts: tuple[str, ...] = ()
    """What the profile did not measure of it."""

    @property
    def seconds(self) -> float:
        """Median of the timed steps."""
        return statistics.median(self.run.seconds)

    @property
    def error(self) -> float:
        """Predicted over measured step time, less 1."""
        return self.predicted.step_time_s / self.seconds - 1.0

    @property
    def memory_error(self) -> float:
        """Predicted over measured peak of allocated bytes, less 1."""
        return self.predicted.peak_memory_allocated_bytes / self.run.peak_bytes - 1.0

    def classes(self) -> dict[str, tuple[float, float]]:
        """Class of time → predicted, measured seconds; `waiting`: communication, its peers and the host."""
        predicted = dict.fromkeys((*_CLASSES, "waiting"), 0.0)
        for name, value in self.predicted.breakdown.items():
            predicted[_CLASSES.get(name, "memory bound" if name == "recompute" else "waiting")] += float(value)
        return {name: (value, self.run.classes.get(name, 0.0)) for name, value in predicted.items()}

    def rows(self) -> list[dict[str, Any]]:
        """For the user's own validation set: `windtunnel validate --rows FILE` reads them."""
        base = {"id": f"own-{self.predicted.input_hash}-{self.way}", "family": "own", "scenario": self.scenario}
        return [
            {**base, "metric": "step_time", "unit": "s", "value": self.seconds},
            {**base, "metric": "peak_memory_allocated", "unit": "GiB", "value": self.run.peak_bytes / 2**30},
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "way": self.way,
            "scenario": self.scenario,
            "changes": list(self.changes),
            "step_time_s": {"predicted": self.predicted.step_time_s, "measured": self.seconds, "error": self.error},
            "peak_memory_allocated_bytes": {
                "predicted": self.predicted.peak_memory_allocated_bytes,
                "measured": self.run.peak_bytes,
                "error": self.memory_error,
            },
            "steps_s": list(self.run.seconds),
            "doubts": list(self.doubts),
            "classes": {k: {"predicted_s": p, "measured_s": m} for k, (p, m) in self.classes().items()},
        }


def measure(
    source: Source,
    *,
    profile: str,
    overrides: tuple[str, ...] = (),
    way: str | None = None,
    steps: int = 5,
    full_size: bool = False,
) -> Measured:
    """Run a scenario's step on this machine, scaled down, and predict the same.

    Args:
        source: a training scenario; its model has to be a dense decoder.
        profile: file of `windtunnel calibrate`, made with as many ranks as the step has.
        overrides: `key=value` settings as `--set` takes them.
        way: single, ddp, fsdp2, tp or pp; absent: the largest axis of the plan.
        steps: that are timed.
        full_size: leave the model, the length and the batch as they are.

    Raises:
        BadInput: a model or plan that cannot be run here.
    """
    from windtunnel.training.predict import simulate_training

    here.torch_or_refuse()
    scenario, _, folder = load(source, overrides)
    if scenario.training is None:
        raise BadInput(Problem("training", "is required for `measure`: seq_len and global_batch at least"))
    model = resolve_model(scenario, folder)
    _check_model(model)
    kind: Literal["cpu", "gpu"] = "gpu" if here.has_gpu() else "cpu"
    chosen = _way(scenario, way)
    ranks = 1 if chosen == "single" else 2 if kind == "cpu" else _ranks(scenario, chosen)
    small, changes = _scaled(scenario, model, chosen, ranks, 1 if full_size else 8 if kind == "gpu" else 1, full_size)
    small["cluster"] = {"device": str(Path(profile).resolve()), "nodes": 1, "devices_per_node": ranks}
    predicted = simulate_training(small, sensitivities=False)
    training, plan = small["training"], small["plan"]
    job = Job(
        way=chosen,
        model=ModelSpec.model_validate(small["model"]),
        seq_len=training["seq_len"],
        mbs=plan["mbs"],
        micro_batches=training["global_batch"] // (plan["mbs"] * (ranks if chosen in ("ddp", "fsdp2") else 1)),
        precision=training["precision"],
        ranks=ranks,
        threads=max(here.cores() // ranks, 1),
        kind=kind,
        steps=steps,
    )
    found = run(job)
    unsure = (*doubts(predicted.scenario, ranks, training["precision"]), *changed(profile, ranks, kind))
    return Measured(chosen, predicted.scenario, tuple(changes), predicted, found, unsure)


def measure_decoding(
    source: Source, *, profile: str, overrides: tuple[str, ...] = (), steps: int = 5, full_size: bool = False
) -> Decoded:
    """Answer prompts in a plain loop of forward passes, scaled down, and predict the same.

    Args:
        source: a serving scenario with a dense decoder; its closed loop's concurrency is the batch.
        profile: file of `windtunnel calibrate`, made with one rank.
        overrides: `key=value` settings as `--set` takes them.
        steps: batches that are timed.
        full_size: leave the model and the lengths as they are.

    Raises:
        BadInput: a model that cannot be run here.
    """
    from windtunnel.serving.simulate import simulate_serving

    here.torch_or_refuse()
    scenario, _, folder = load(source, overrides)
    if scenario.serving is None:
        raise BadInput(Problem("serving", "is required to measure decoding"))
    model = resolve_model(scenario, folder)
    _check_model(model)
    kind: Literal["cpu", "gpu"] = "gpu" if here.has_gpu() else "cpu"
    factor = 8 if kind == "gpu" else 1
    wanted = {} if full_size else _dimensions(model, "single", 1, factor)
    traffic = scenario.serving.traffic
    lengths = [
        int(getattr(traffic, n)) if isinstance(getattr(traffic, n), int) else 256
        for n in ("input_tokens", "output_tokens")
    ]
    most = 10**9 if full_size else factor * SEQ_LEN
    prompt, answer = min(lengths[0], most), max(min(lengths[1], most, 64), 2)
    batch = max(min(int(traffic.concurrency or 4), 64 if kind == "gpu" else 8), 1)
    data = {**_plain(model), **wanted}
    small: dict[str, Any] = {
        "name": f"{model.name}, decoding",
        "model": data,
        "cluster": {"device": str(Path(profile).resolve()), "nodes": 1, "devices_per_node": 1},
        "serving": {
            "engine": "generic",
            "pools": [{"limits": {"cuda_graphs": False, "max_num_batched_tokens": max(prompt * batch, 2048)}}],
            "traffic": {"concurrency": batch, "num_requests": batch, "input_tokens": prompt, "output_tokens": answer},
        },
    }
    predicted = simulate_serving(small)
    job = Job(
        way="decode",
        model=ModelSpec.model_validate(data),
        seq_len=prompt,
        mbs=batch,
        micro_batches=1,
        precision="bf16",
        ranks=1,
        threads=here.cores(),
        kind=kind,
        steps=steps,
        output_tokens=answer - 1,
    )
    found = run(job)
    unsure = (*doubts(predicted.scenario, 1, "bf16"), *changed(profile, 1, kind))
    return Decoded(
        predicted.scenario, tuple(_said(model, wanted)), predicted.tpot_s.mean, predicted.ttft_s.mean, found, unsure
    )


def append(rows: list[dict[str, Any]], path: Path) -> int:
    """Add rows to a file of rows; how many it has then.

    Raises:
        BadInput: the file holds something else.
    """
    known: list[dict[str, Any]] = []
    if path.exists():
        try:
            known = json.loads(read_text(path))
        except ValueError as error:
            raise BadInput(Problem("", f"cannot be read: {error}", file=str(path))) from error
        if not isinstance(known, list):
            raise BadInput(Problem("", "must hold a list of rows", file=str(path)))
    write_text(path, json.dumps([*known, *rows], indent=1) + "\n")
    return len(known) + len(rows)


def _check_model(model: ModelSpec) -> None:
    if model.num_experts or model.is_mla or model.family != "dense" or model.hybrid_override_pattern:
        raise BadInput(Problem("model", "must be a dense decoder: `measure` builds no other", model.name))


def _way(scenario: Scenario, given: str | None) -> Way:
    if given is not None:
        if given not in FRAMEWORKS:
            raise BadInput(Problem("--as", f"must be one of {', '.join(FRAMEWORKS)}", given))
        return given  # type: ignore[return-value]
    plan = scenario.plan
    sizes = {"tp": plan.tp, "pp": plan.pp}
    name, size = max(sizes.items(), key=lambda item: item[1])
    if size > 1:
        return "tp" if name == "tp" else "pp"
    devices = 1
    if not isinstance(scenario.cluster, str):
        devices = getattr(scenario.cluster, "nodes", 1) * getattr(scenario.cluster, "devices_per_node", 1)
    if devices == 1 or plan.dp == 1:
        return "single"
    return "fsdp2" if plan.zero == 3 else "ddp"


def _ranks(scenario: Scenario, way: Way) -> int:
    count = int(here.torch_or_refuse().cuda.device_count())
    size = {"tp": scenario.plan.tp, "pp": scenario.plan.pp}.get(way, count)
    if count < 2:
        raise BadInput(Problem("--as", f"{way} needs two devices, and there is one; say single", way))
    return max(min(size, count), 2)


def _scaled(
    scenario: Scenario, model: ModelSpec, way: Way, ranks: int, factor: int, full_size: bool
) -> tuple[dict[str, Any], list[str]]:
    """A scenario that this machine runs in seconds, and what was made smaller."""
    training = scenario.training
    assert training is not None
    wanted = {} if full_size else _dimensions(model, way, ranks, factor)
    seq_len = training.seq_len if full_size else min(training.seq_len, factor * factor * SEQ_LEN)
    replicas = ranks if way in ("ddp", "fsdp2") else 1
    mbs = scenario.plan.mbs if full_size else min(scenario.plan.mbs, 2)
    steps = max(training.global_batch // (mbs * replicas), 1)
    if not full_size:
        steps = min(steps, 4 if way == "pp" else 2)
    data = {**_plain(model), **wanted}
    data["name"] = f"{model.name}, scaled down" if wanted else model.name
    precision = "bf16" if training.precision != "fp32" else "fp32"
    small: dict[str, Any] = {
        "name": f"{scenario.name or model.name} as {way}",
        "model": data,
        "training": {
            "seq_len": seq_len,
            "global_batch": mbs * replicas * steps,
            "precision": precision,
            "framework": FRAMEWORKS[way],
            "compile": False,
            "padded_vocab": False,
            "fused_cross_entropy": False,
        },
        "plan": {
            "mbs": mbs,
            "zero": 3 if way == "fsdp2" else 0,
            "sp": False,
            "recompute": "none",  # `real` runs no recomputation, whatever the framework does by itself
            **({way: ranks} if way in ("tp", "pp") else {}),
        },
    }
    if precision == "bf16" and way != "fsdp2":
        small["training"]["autocast"] = True
    changes = _said(model, wanted)
    if seq_len != training.seq_len:
        changes.append(f"training.seq_len {training.seq_len} → {seq_len}")
    if small["training"]["global_batch"] != training.global_batch:
        changes.append(f"training.global_batch {training.global_batch} → {small['training']['global_batch']}")
    if precision != training.precision:
        changes.append(f"training.precision {training.precision} → {precision}")
    return small, changes


def _plain(model: ModelSpec) -> dict[str, Any]:
    """Fields of a model as `transformer` builds it."""
    return {**model.model_dump(mode="json", exclude_defaults=True, exclude={"sources"}), "norm": "rmsnorm"}


def _dimensions(model: ModelSpec, way: Way, ranks: int, factor: int) -> dict[str, Any]:
    """Dimensions of the same shape that this machine runs in seconds."""
    head = model.head_dim or model.hidden_size // model.num_attention_heads
    heads = max(min(model.num_attention_heads, factor * HIDDEN // head), ranks)
    kv = model.num_key_value_heads or model.num_attention_heads
    kv = max(1, kv * heads // model.num_attention_heads, ranks if way == "tp" else 1)
    width = min(model.hidden_size, head * heads)
    layers = min(model.num_hidden_layers, factor * LAYERS)
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": head,
        "num_hidden_layers": max(layers // ranks * ranks, ranks) if way == "pp" else layers,
        "intermediate_size": min(round(model.intermediate_size * width / model.hidden_size), factor * INTERMEDIATE),
        "vocab_size": min(model.vocab_size, factor * VOCAB),
    }


def _said(model: ModelSpec, wanted: dict[str, Any]) -> list[str]:
    return [f"model.{k} {getattr(model, k)} → {v}" for k, v in wanted.items() if getattr(model, k) not in (v, None)]
