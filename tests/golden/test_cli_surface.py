"""What outside tools rely on: verbs, options, public names and JSON keys. A change here needs a changelog entry."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import windtunnel
from windtunnel.cli.main import app
from windtunnel.serving.results.metrics import distribution
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.training.results.records import Interval, MemoryReport
from windtunnel.training.results.training_result import TrainingResult

pytestmark = pytest.mark.golden

OPTIONS = {
    "catalog add": ["--json", "--name", "--output", "--source"],
    "example": ["--force", "--json", "--output"],
    "ask": ["--force", "--json", "--output", "--verbose"],
    "train": [
        "--against",
        "--cite",
        "--curves",
        "--export",
        "--export-dir",
        "--force",
        "--interval",
        "--json",
        "--report",
        "--set",
        "--target-version",
        "--trace",
        "--verbose",
        "--wrapper",
    ],
    "serve": [
        "--cite",
        "--export",
        "--export-dir",
        "--force",
        "--jobs",
        "--json",
        "--linear",
        "--points",
        "--report",
        "--requests",
        "--set",
        "--sweep",
        "--target-version",
        "--trace",
        "--verbose",
        "--wrapper",
    ],
    "batch": ["--json", "--trust"],
    "studio": ["--browser", "--json", "--port"],
    "mcp": ["--allow-code", "--allow-write", "--http", "--json", "--port", "--root"],
    "sweep": [],
    "sweep start": [
        "--draws",
        "--dry-run",
        "--extend",
        "--full",
        "--jobs",
        "--json",
        "--out",
        "--ray",
        "--seed",
        "--set",
        "--trust",
        "--vary",
        "--verb",
        "--zip",
    ],
    "sweep status": ["--json"],
    "sweep resume": ["--jobs", "--json", "--ray", "--retry", "--trust"],
    "sweep query": ["--json", "--unlocked", "--verbose"],
    "sweep export": ["--json", "--view"],
    "cluster": ["--json", "--report", "--set", "--verbose"],
    "learn": ["--bandwidth-for", "--cache", "--json", "--list", "--plot", "--report", "--set", "--trust", "--verbose"],
    "reason": ["--json", "--list", "--report", "--set", "--verbose"],
    "fit": ["--json", "--set"],
    "run": [
        "--jobs",
        "--json",
        "--output",
        "--progress",
        "--report",
        "--search",
        "--sensitivities",
        "--set",
        "--verbose",
    ],
    "plan": [
        "--export",
        "--export-dir",
        "--force",
        "--free",
        "--json",
        "--objective",
        "--output",
        "--report",
        "--set",
        "--simpler",
        "--stability",
        "--target-version",
        "--time-limit",
        "--verbose",
        "--why",
        "--wrapper",
    ],
    "calibrate": [
        "--days",
        "--device",
        "--from",
        "--from-logs",
        "--json",
        "--keep",
        "--model",
        "--nodes",
        "--on",
        "--out",
        "--plot",
        "--ranks",
        "--scenario",
        "--seconds",
        "--set",
        "--software",
        "--system",
        "--task",
        "--temperature",
    ],
    "measure": ["--append", "--as", "--full-size", "--json", "--profile", "--set", "--steps"],
    "advise": ["--all", "--cite", "--json", "--objective", "--pairs", "--report", "--set", "--write"],
    "compare": ["--json", "--report", "--set", "--verbose"],
    "explain": ["--against", "--class", "--json", "--set", "--term", "--verbose"],
    "validate": ["--family", "--gate", "--json", "--rows"],
    "models": ["--family", "--json"],
    "clusters": ["--json"],
    "devices": ["--json"],
    "laws": ["--extrapolate", "--json", "--list"],
    "stacks": ["--json"],
    "import": [
        "--block",
        "--block-size",
        "--characters-per-token",
        "--device",
        "--devices-per-node",
        "--env",
        "--force",
        "--format",
        "--framework",
        "--global-batch",
        "--input",
        "--json",
        "--mbs",
        "--model",
        "--name",
        "--nodes",
        "--output",
        "--seq-len",
        "--set",
        "--time-unit",
        "--trust",
        "--vocab-size",
        "--with",
        "--without",
    ],
    "init": [
        "--cluster",
        "--device",
        "--devices-per-node",
        "--force",
        "--framework",
        "--global-batch",
        "--json",
        "--learning",
        "--model",
        "--nodes",
        "--reason",
        "--run",
        "--seq-len",
        "--serving",
    ],
    "check": ["--baseline", "--json", "--require", "--set", "--tolerance", "--update"],
    "schema": ["--json", "--names", "--output"],
    "doctor": ["--json", "--warm"],
    "rerun": ["--json"],
    "reproduce": ["--acts-on", "--full", "--gate", "--jobs", "--json", "--list", "--out"],
    "catalog check": ["--json"],
    "techniques": ["--json"],
    "techniques list": ["--acts-on", "--family", "--json", "--level", "--planned", "--relieves", "--status"],
    "techniques show": ["--json"],
    "techniques search": ["--json", "--planned"],
    "techniques cite": ["--json", "--output", "--text"],
}

PUBLIC = [
    "BadInput",
    "GateFailed",
    "Infeasible",
    "Scenario",
    "ServingResult",
    "TrainingResult",
    "WindtunnelError",
    "__version__",
    "advise",
    "ask",
    "compare",
    "explain",
    "explore",
    "fit",
    "import_torch_module",
    "load_scenario",
    "plan",
    "scenario",
    "simulate_serving",
    "simulate_training",
    "sweep",
    "validate",
]

RESULT_KEYS = [
    "scenario_name",
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "model_tflops_per_device",
    "hardware_tflops_per_device",
    "mfu",
    "hfu",
    "peak_memory_allocated_bytes",
    "peak_memory_reserved_bytes",
    "memory_fits",
    "breakdown",
    "interval",
    "memory",
    "sensitivities",
    "bound_by",
    "plan",
    "num_devices",
    "num_micro_batches",
    "assumed",
    "warnings",
    "citations",
    "techniques",
    "stages",
    "run",
    "groups",
    "lengths",
    "scenario",
    "input_hash",
    "version",
    "simulated_in_s",
    "mean_power_w",
    "clock",
    "energy_per_token_j",
    "model_flop_per_token",
    "attention_flop_per_token",
    "cost_per_million_tokens",
    "grades",
    "measure_next",
    "time_to_train",
]


SERVING_KEYS = [
    "requests",
    "duration_s",
    "throughput_requests_per_s",
    "output_tokens_per_s",
    "output_tokens_per_s_per_device",
    "ttft_s",
    "tpot_s",
    "itl_s",
    "e2e_s",
    "slo_attainment",
    "goodput_requests_per_s",
    "kv_cache_usage_max",
    "preemptions",
    "saturated",
    "simulated_in_s",
    "completed",
    "rejected",
    "capacity",
    "limits",
    "bound_by",
    "composition",
    "power",
    "cost_per_million_output_tokens",
    "intervals",
    "grades",
    "assumed",
    "warnings",
    "scenario",
    "input_hash",
    "version",
]
"""Of `serve --json`; there may be more."""


def surface(command: Any, path: str = "") -> dict[str, list[str]]:
    """Option names (long, without help) of every command below one."""
    out = {}
    own = [max(o.opts, key=len) for o in command.params if o.opts[0].startswith("-") and "--help" not in o.opts]
    if path:
        out[path] = sorted(own)
    for name, child in getattr(command, "commands", {}).items():
        out |= surface(child, f"{path} {name}".strip())
    return out


def test_verbs_and_options_are_frozen() -> None:
    found = surface(typer.main.get_command(app))
    found.pop("catalog")
    assert found == OPTIONS


def test_every_verb_prints_json_and_explains_itself() -> None:
    def walk(command: Any) -> None:
        for child in getattr(command, "commands", {}).values():
            assert child.help, child.name
            if not getattr(child, "commands", {}):
                assert child.epilog, child.name
                assert any("--json" in o.opts for o in child.params), child.name
            walk(child)

    walk(typer.main.get_command(app))


def test_public_names_are_frozen() -> None:
    assert sorted(windtunnel.__all__) == sorted(PUBLIC)
    assert dir(windtunnel) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(windtunnel, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        windtunnel.nonsense  # noqa: B018


def test_result_keys_are_frozen() -> None:
    names = [f.name for f in fields(TrainingResult)]
    assert [name for name in names if name != "trace"] == RESULT_KEYS
    assert [f.name for f in fields(Interval)] == ["level", "low", "high", "basis", "grade", "rows"]
    memory = ["stage", "peak_allocated_bytes", "peak_reserved_bytes", "capacity_bytes", "at_peak"]
    assert [f.name for f in fields(MemoryReport)][:5] == memory


def test_keys_of_a_serving_result_are_kept() -> None:
    names = [f.name for f in fields(ServingResult)]
    assert [key for key in SERVING_KEYS if key not in names] == []
    told = {"mean", "p50", "p90", "p99"}
    assert told <= set(distribution(np.arange(5.0)).to_dict())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from windtunnel.cli.main import run; run(['train', '--help']); run(['serve', '--help']); "
        "print([m for m in ('numpy', 'numba', 'vl_convert', 'pandas', 'yaml', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, windtunnel; print([m for m in ('numpy', 'pydantic', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_type_stub_names_what_the_package_exports() -> None:
    stub = Path(windtunnel.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    named = {line.split(" as ")[1] for line in stub.splitlines() if " as " in line}
    assert named | {"__version__"} == set(PUBLIC)
    homes = {line.split()[3]: line.split()[1] for line in stub.splitlines() if line.startswith("from ")}
    assert homes == windtunnel._HOME
