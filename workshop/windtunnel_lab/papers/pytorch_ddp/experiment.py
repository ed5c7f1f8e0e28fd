"""Scaling to 256 GPUs, the best bucket size and the worth of `no_sync`, from one simulated step each."""

from __future__ import annotations

from typing import Any

from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside

EXPERIMENT = Experiment(__name__)
ASSUMED = ("BERT-large on V100; batch, length and NIC are not in the abstract: central values by rule, then swept",)


def central() -> dict[str, float]:
    """Central values of what the paper leaves open."""
    return {name: item["central"] for name, item in EXPERIMENT.setting["open"].items()}


def variants() -> list[dict[str, float]]:
    """One setting at a time moved to its low and its high end."""
    return [
        central() | {name: item[end]} for name, item in EXPERIMENT.setting["open"].items() for end in ("low", "high")
    ]


def scenario(gpus: int, values: dict[str, float], *, micro_batches: int = 1, **knobs: Any) -> dict[str, Any]:
    """A DDP step with the same batch on every GPU."""
    fixed = {name: item["value"] for name, item in EXPERIMENT.setting["fixed"].items()}
    per_node = min(gpus, fixed["devices_per_node"])
    rate = values["nic_gbit_per_node"] * 1e9 / 8 * per_node / fixed["devices_per_node"]
    batch = int(values["batch_per_gpu"])
    return {
        "model": fixed["model"],
        "cluster": {
            "device": fixed["device"],
            "nodes": gpus // per_node,
            "devices_per_node": per_node,
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": rate},
        },
        "training": {
            "seq_len": int(values["seq_len"]),
            "global_batch": batch * gpus * micro_batches,
            "precision": fixed["precision"],
            "framework": "ddp",
        },
        "plan": {"mbs": batch, "zero": 0},
        "techniques": [{"pytorch-ddp": knobs}],
    }


def step_s(gpus: int, values: dict[str, float], **options: Any) -> float:
    """Seconds of one step."""
    return simulate_training(scenario(gpus, values, **options), sensitivities=False).step_time_s


def efficiency(values: dict[str, float]) -> float:
    """Throughput per GPU on all GPUs over that of a single one."""
    return step_s(1, values) / step_s(EXPERIMENT.setting["fixed"]["gpus"]["value"], values)


def best_bucket_mb(values: dict[str, float]) -> float:
    """The fastest size on the grid; the smaller one of equals."""
    fixed = EXPERIMENT.setting["fixed"]
    grid: list[float] = fixed["bucket_grid_mb"]["value"]
    return min(grid, key=lambda size: (step_s(fixed["gpus_bucket"]["value"], values, bucket_mb=float(size)), size))


def no_sync_gain(values: dict[str, float]) -> float:
    """Time with a reduction in every micro-batch over time with one reduction."""
    fixed = EXPERIMENT.setting["fixed"]
    gpus, k = fixed["gpus"]["value"], fixed["micro_batches"]["value"]
    every = step_s(gpus, values, micro_batches=k, no_sync=False)
    return every / step_s(gpus, values, micro_batches=k, no_sync=True)


def run() -> list[ClaimResult]:
    """Three claims; the range spans the sweep, the central value decides."""
    claims, grid = EXPERIMENT.setting["claims"], EXPERIMENT.setting["fixed"]["bucket_grid_mb"]["value"]
    default_mb = float(claims["bucket"]["published_mb"])
    bar = float(claims["scaling"]["criterion"])
    results = []
    for key, text, published, measure in (
        ("scaling", "throughput per GPU on 256 GPUs over one GPU's; near-linear: 0.85 or more", bar, efficiency),
        ("bucket", "fastest bucket in MB on 32 GPUs: inside the grid", default_mb, best_bucket_mb),
        ("no_sync", "step time with a reduction per micro-batch over one in eight: above 1", 1.0, no_sync_gain),
    ):
        value, swept = measure(central()), [measure(values) for values in variants()]
        within = {"scaling": value >= bar, "bucket": grid[0] < value < grid[-1], "no_sync": value > 1.0}[key]
        results.append(
            ClaimResult(
                id=f"pytorch-ddp/{key}",
                claim=text,
                published=published,
                simulated=value,
                low=min(value, *swept),
                high=max(value, *swept),
                within=within,
                assumptions=ASSUMED,
                tier="A" if key == "scaling" else "",
            )
        )
    return results


def plot(results: list[ClaimResult]) -> Any:
    """Step time over bucket size at the two ends of what a node's NIC may be, and between."""
    fixed, series = EXPERIMENT.setting["fixed"], {}
    for rate in dict.fromkeys(
        EXPERIMENT.setting["open"]["nic_gbit_per_node"][end] for end in ("low", "central", "high")
    ):
        values = central() | {"nic_gbit_per_node": rate}
        gpus, sizes = fixed["gpus_bucket"]["value"], fixed["bucket_grid_mb"]["value"]
        series[f"{rate:g} Gb/s a node"] = [
            (float(size), float("nan"), step_s(gpus, values, bucket_mb=float(size))) for size in sizes
        ]
    title = f"{fixed['model']['value']} on {fixed['gpus_bucket']['value']} GPUs"
    return beside({title: series}, "bucket, MB", "s", log_x=True)
