"""Profiles from the operator tables inside the package `aiconfigurator-core` (Apache-2.0, NVIDIA).

Layout, as of release 0.12: `systems/<system>.yaml`, and `systems/data/<system>/<group>/<software>/<version>/*.parquet`
with seconds of single kernels in ms: `gemm_perf` (gemm_dtype, m, n, k), `context_attention_perf` and
`generation_attention_perf` (batch_size, isl, num_heads, num_key_value_heads, head_dim, step, window_size, dtypes),
`comm/nccl/…/nccl_perf` (op_name, num_gpus, nccl_dtype, message_size in elements of the whole buffer).
Nothing of the package is imported or copied: an installed one, or an unpacked wheel, is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.calibration.cases import Case
from windtunnel.calibration.profile import Calibration, from_tables
from windtunnel.calibration.store import Measurement, Store
from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.extras import extra

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = "aiconfigurator_core"
DEVICES = {
    "a100_sxm": "a100-sxm-80gb",
    "a100_pcie": "a100-pcie-80gb",
    "h100_sxm": "h100-sxm-80gb",
    "h100_pcie": "h100-pcie-80gb",
    "h200_sxm": "h200-sxm-141gb",
    "b200_sxm": "b200-sxm-180gb",
    "b300_sxm": "b300-sxm-270gb",
    "gb200": "gb200",
    "gb300": "gb300",
    "l4": "l4-24gb",
    "l40s": "l40s-48gb",
    "rtx_pro_6000_server": "rtx-pro-6000",
}
"""Its systems → the catalogue's devices."""
SOFTWARE = ("vllm", "sglang", "trtllm")
_MOST = 240
"""Cases of a kind: spread evenly over the shapes, since a table has up to a hundred thousand."""
_FORMATS = {"bfloat16": "bf16", "fp8": "fp8"}
_DTYPE_BYTES = {"half": 2.0, "int8": 1.0}
_OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
_LONG_FLOP = 2e11
_FAR_BYTES = 1e8
_LEAST_STEP, _MOST_SHARERS = 1023, 16
"""Caches of decoding attention from which on they are read at a rate: large, of long sequences (not a thousand short
ones, each a block's start), and not shared by so many heads that computing takes longer."""


def calibrate_from_tables(system: str, software: str | None = None, folder: Path | None = None) -> Calibration:
    """A profile of a system: products, attention, decoding, collectives inside a node.

    Args:
        system: as the package calls it (`h200_sxm`).
        software: whose kernels: vllm, sglang or trtllm; absent: the first of these that has tables.
        folder: of the package, where it is not installed.

    Raises:
        BadInput: no package, no such system or software, tables of another layout.
    """
    systems = _systems(folder)
    known = sorted(p.name for p in (systems / "data").iterdir() if (p / "gemm").is_dir() and p.name in DEVICES)
    if system not in known:
        rule = f"must be one of {', '.join(known)}"
        raise BadInput(Problem("--system", rule, system or "", nearest=nearest_name(system, known) if system else None))
    try:
        return _calibrated(systems / "data" / system, software)
    except KeyError as error:
        raise BadInput(f"--from aiconfigurator: tables of another layout: no column {error}") from None


def _calibrated(data: Path, software: str | None) -> Calibration:
    from windtunnel import catalog
    from windtunnel.specs.cluster import ClusterRef

    system = data.name
    chosen = _software(data, software)
    device = catalog.device(DEVICES[system])
    cluster = catalog.resolve_cluster(ClusterRef(device=device, nodes=1, devices_per_node=8))
    version = _newest(data / "gemm" / chosen)
    store = Store(
        None,
        {
            "machine": system,
            "software": f"{chosen} {version.name}",
            "source": f"tables of {PACKAGE}",
        },
    )
    for one in _products(_table(version / "gemm_perf.parquet")):
        store.add(one)
    warnings = [
        "tables are of single kernels, at the clock of a short run: long steps at the power limit are slower "
        "(`--from-logs` corrects them by steps of your own)"
    ]
    named = True
    if (data / "attention" / chosen).is_dir():
        attention = _newest(data / "attention" / chosen)
        prompts = _table(attention / "context_attention_perf.parquet")
        kernel = _kernel(str(prompts["kernel_source"].mode().iloc[0]))
        named = kernel is not None
        for one in _prompts(prompts, kernel or "flash3"):
            store.add(one)
        for one in _decoding(_table(attention / "generation_attention_perf.parquet")):
            store.add(one)
    if (data / "comm" / "nccl").is_dir():
        nccl = _newest(data / "comm" / "nccl")
        store.conditions["nccl"] = nccl.name
        for one in _collectives(_table(nccl / "nccl_perf.parquet")):
            store.add(one)
    found = from_tables(store, device, cluster, warnings)
    profile = found.device.profile
    if not named and profile is not None:  # kernels of its own, which no training framework runs
        kept = {k: v for k, v in profile.coefficients.items() if not k.startswith("attention_")}
        return found.with_profile(profile.model_copy(update={"coefficients": kept}))
    return found


def _systems(folder: Path | None) -> Path:
    if folder is None:
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise BadInput("--from aiconfigurator: needs the package's tables: pip install aiconfigurator-core")
        folder = Path(spec.submodule_search_locations[0])
    for inner in (folder / "systems", folder / PACKAGE / "systems", folder):
        if (inner / "data").is_dir():
            return inner
    raise BadInput(Problem("", "holds no tables: no folder systems/data", file=str(folder)))


def _software(data: Path, wanted: str | None) -> str:
    there = [name for name in SOFTWARE if (data / "gemm" / name).is_dir()]
    if not there:
        raise BadInput(Problem("--system", "has no tables of matrix products", data.name))
    if wanted is not None and wanted not in there:
        raise BadInput(Problem("--software", f"has no tables of {data.name}; there are {', '.join(there)}", wanted))
    return wanted or there[0]


def _newest(folder: Path) -> Path:
    """Newest version below a folder that has tables of its own (some only point at others)."""
    versions = [p for p in folder.iterdir() if any(p.glob("*_perf.parquet"))]
    if not versions:
        raise BadInput(Problem("", "holds no tables", file=str(folder)))
    return max(versions, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])


def _table(path: Path) -> pd.DataFrame:
    pandas = extra("pandas")
    try:
        frame: pd.DataFrame = pandas.read_parquet(path)
        return frame
    except ImportError as error:
        raise BadInput("--from aiconfigurator: needs pyarrow to read its tables: pip install pyarrow") from error
    except (OSError, ValueError) as error:
        raise BadInput(Problem("", f"cannot be read: {error}", file=str(path))) from None


def _spread(found: pd.DataFrame, columns: list[str], path: str) -> Iterable[dict[str, Any]]:
    """At most `_MOST` rows, evenly over the sorted shapes; runs of one shape become their median."""
    if missing := [c for c in (*columns, "latency") if c not in found.columns]:
        raise BadInput(f"{path}: has no column {', '.join(missing)}: tables of another layout")
    one = found.groupby(columns, sort=True)["latency"].median().reset_index()
    at = np.unique(np.linspace(0, max(len(one) - 1, 0), min(_MOST, len(one))).astype(int))
    return [{str(k): v for k, v in row.items()} for row in one.iloc[at].to_dict("records")]


def _measured(case: Case, row: dict[str, Any]) -> Measurement:
    seconds = 1e-3 * float(row["latency"])
    return Measurement(case, seconds, seconds, seconds, 1)


def _products(table: pd.DataFrame) -> Iterable[Measurement]:
    wide = (table["n"] >= 1024) & (table["k"] >= 1024) & (table["n"] <= 16384) & (table["k"] <= 16384)
    for name, number_format in _FORMATS.items():
        rows = table[wide & (table["gemm_dtype"] == name)]
        if number_format != "bf16":  # only its rate is fitted; short ones are ruled by the casts around the product
            rows = rows[2.0 * rows["m"] * rows["n"] * rows["k"] >= _LONG_FLOP]
        for row in _spread(rows[rows["m"] >= 256], ["m", "n", "k"], "gemm_perf"):
            shape = {a: int(row[a]) for a in "mnk"} | {"format": number_format, "layout": "nt"}
            yield _measured(Case("gemm", shape), row)
        if number_format == "bf16":
            for row in _spread(rows[(rows["m"] <= 16) & (rows["n"] * rows["k"] >= 1 << 24)], ["m", "n", "k"], "gemm"):
                shape = {a: int(row[a]) for a in "mnk"} | {"format": number_format}
                yield _measured(Case("thin", shape), row)


def _kernel(source: str) -> str | None:
    """The catalogue's name of an attention kernel; None: one that no training framework runs."""
    return "flash3" if re.search(r"fa3|fa4", source) else "flash2" if re.search(r"fa2", source) else None


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    bf16 = (table["attn_dtype"] == "bfloat16") & (table["kv_cache_dtype"] == "bfloat16")
    whole = table["window_size"] == 0 if "window_size" in table else True  # older tables have none
    return table[bf16 & whole & (table["head_dim"] == 128)]


def _prompts(table: pd.DataFrame, kernel: str) -> Iterable[Measurement]:
    rows = _plain(table)
    rows = rows[(rows["step"] == 0) & (rows["isl"] >= 256) & (rows["batch_size"] * rows["isl"] >= 2048)]
    for row in _spread(rows, ["isl", "batch_size", "num_heads", "head_dim"], "context_attention_perf"):
        shape = {
            "batch": int(row["batch_size"]),
            "heads": int(row["num_heads"]),
            "seq_len": int(row["isl"]),
            "head_dim": int(row["head_dim"]),
            "format": "bf16",
            "direction": "forward",
            "kernel": kernel,
        }
        yield _measured(Case("attention", shape), row)


def _decoding(table: pd.DataFrame) -> Iterable[Measurement]:
    rows = _plain(table)
    cache = 4.0 * rows["batch_size"] * rows["num_key_value_heads"] * (rows["step"] + 1) * rows["head_dim"]
    keys = ["step", "batch_size", "num_key_value_heads", "head_dim"]
    shared = rows["num_heads"] <= _MOST_SHARERS * rows["num_key_value_heads"]
    long = (cache >= _FAR_BYTES) & (rows["step"] >= _LEAST_STEP)
    for row in _spread(rows[long & shared], keys, "generation_attention_perf"):
        shape = {
            "batch": int(row["batch_size"]),
            "heads": int(row["num_key_value_heads"]),
            "seq_len": int(row["step"]) + 1,
            "head_dim": int(row["head_dim"]),
            "format": "bf16",
            "direction": "decode",
        }
        yield _measured(Case("attention", shape), row)


def _collectives(table: pd.DataFrame) -> Iterable[Measurement]:
    rows = table[table["op_name"].isin(_OPERATIONS) & (table["nccl_dtype"] == "half")]
    for row in _spread(rows, ["op_name", "num_gpus", "message_size"], "nccl_perf"):
        shape = {
            "operation": _OPERATIONS[row["op_name"]],
            "bytes": int(_DTYPE_BYTES["half"] * row["message_size"]),
            "ranks": int(row["num_gpus"]),
        }
        yield _measured(Case("collective", shape), row)
