"""Published serving results that judge: they are predicted and set no coefficient.

`python -m windtunnel_lab.accuracy.serving_judges` prints docs/accuracy/serving-judges.md: offline throughput of
MLPerf Inference next to the prediction, what one short prompt takes alone, and releases of one engine on the same load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windtunnel.cost.serving import serving_coefficients
from windtunnel.validation.predict.serving_run import ready, run
from windtunnel.validation.rows.parsing.serving import read_serving
from windtunnel.validation.rows.row_files import serving_judges
from windtunnel.validation.rows.serving_targets import served_value

ALONE_MS = (5.0, 35.0)
"""What the first token of a one-token prompt may take on an 8B model and one H100: 16 GB of weights at 3.35 TB/s are 5
ms, and servers answer in 10 to 30 ms."""
WITHIN = 0.2
"""Largest share by which a throughput may be off."""
ENGINES = (
    ("vllm", "0.7.0"),
    ("vllm", "0.19.0"),
    ("sglang", "0.5.9"),
    ("tensorrt-llm", "0.17.0"),
    ("tensorrt-llm", "1.2.0"),
)
"""Engines and releases that a single request is sent to."""
LOADS = (
    ("meta-llama/Llama-3.1-8B", 1, 8),
    ("meta-llama/Llama-3.1-8B", 1, 128),
    ("meta-llama/Llama-3.1-70B", 4, 8),
    ("meta-llama/Llama-3.1-70B", 4, 128),
    ("mistralai/Mixtral-8x7B-v0.1", 2, 8),
    ("mistralai/Mixtral-8x7B-v0.1", 2, 128),
)
"""Model, devices, requests in flight that two releases of TensorRT-LLM serve in fp8."""
COMPILED = "0.17.0"
"""A release of TensorRT-LLM whose engines are compiled and whose host is C++."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One published figure and its prediction, both in the row's unit."""

    row: dict[str, Any]
    metric: str
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.predicted / self.measured


def predicted(row: dict[str, Any], host_of: str = "") -> dict[str, float]:
    """A row's metrics as they are predicted.

    Args:
        row: what is predicted.
        host_of: a release of the same engine whose host prepares and samples batches; absent: the row's own.

    Raises:
        ValueError: the row cannot be read, or the run has no such quantity.
    """
    found = read_serving(row)
    if found.scenario is None:
        raise ValueError(f"{row['id']}: {found.reason}")
    decided = ready(found.scenario, Path())
    own = decided.coefficients()
    if host_of:
        host = serving_coefficients(decided.serving.engine, host_of, decided.cluster.device)
        own = replace(own, host_s=host.host_s, sequence_s=host.sequence_s)
    served = run(decided, own)
    out = {}
    for metric in row["metrics"]:
        value = served_value(metric, served)
        if value is None:
            raise ValueError(f"{row['id']}: the run has no {metric}")
        out[metric] = value
    return out


def judged() -> list[Judged]:
    """Every published figure next to its prediction."""
    out = []
    for row in serving_judges():
        values = predicted(row)
        out += [Judged(row, metric, float(row["metrics"][metric]), value) for metric, value in values.items()]
    return out


def closed_loop(
    engine: str, release: str, model: str, tp: int, slots: int, prompt: int = 1024, host_of: str = ""
) -> dict[str, float]:
    """Milliseconds to the first token, and tokens/s, of a closed loop on H100: fp8, or bf16 for one request."""
    row = {
        "id": f"{engine} {release} {model}",
        "engine": engine,
        "engine_version": release,
        "model": model,
        "hardware": "h100_sxm",
        "precision": "bf16" if slots == 1 else "fp8",
        "config": {},
        "tp": tp,
        "pp": 1,
        "ep": 1,
        "isl": prompt,
        "osl": 512 if slots > 1 else 64,
        "load": {"concurrency": slots},
        "metrics": {"ttft_mean_ms": 0.0, "output_tok_s": 0.0},
    }
    return predicted(row, host_of)


def alone(engine: str, release: str, prompt: int = 1) -> float:
    """Milliseconds to the first token of one request at a time: Llama-3.1-8B in bf16 on one H100."""
    return closed_loop(engine, release, "meta-llama/Llama-3.1-8B", 1, 1, prompt)["ttft_mean_ms"]


def newest_over_compiled(model: str, tp: int, slots: int, host_of: str = "") -> float:
    """Throughput of TensorRT-LLM 1.2 over that of 0.17 on the same load; with `host_of` a release's host."""
    newest = closed_loop("tensorrt-llm", "1.2.0", model, tp, slots, host_of=host_of)["output_tok_s"]
    return newest / closed_loop("tensorrt-llm", COMPILED, model, tp, slots)["output_tok_s"]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]], words: int) -> str:
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *lines])


PAGE = """# Serving, judged by published results

Published results that set no coefficient (`validation/rows/measured/serving_judges/`, each with its source). Written by
`python -m windtunnel_lab.accuracy.serving_judges`; `tests/unit/validation/test_serving_judges.py` holds the bars.

## Offline throughput, MLPerf Inference

Requests all at hand and as many as were sent, settings from the submission's configuration, lengths of answers from its
logs. MLPerf's logs do not state lengths of prompts: where no document does, they are taken as the row's `source` says.
Of Mixtral's three data sets (OpenOrca, GSM8K, MBXP) one is known from a printed sample, so that its rows judge loosely.
Misses beyond {within} % are marked.

{offline}

## One request alone

Milliseconds to the first token, Llama-3.1-8B in bf16 on one H100. Bar: {low:g} to {high:g} ms for one token of prompt.

{alone}

## Releases of TensorRT-LLM on the same load

Tokens/s of release 1.2 over those of 0.17, H100, fp8, 1,024 tokens in and 512 out. The last column gives release
1.2 the host of 0.17: batches are prepared in Python since 1.0 (0.9 ms a step and 10 us a sequence), in C++ before
(0.5 ms, 3 us).

{releases}
"""


def page() -> str:
    """The page as Markdown."""
    offline = []
    for one in judged():
        row, name = one.row, str(one.row["model"]).rpartition("/")[2]
        mark = "" if abs(one.ratio - 1.0) <= WITHIN else " **miss**"
        figures = (f"{one.measured:,.0f}", f"{one.predicted:,.0f}", f"{one.ratio:.2f}{mark}")
        offline.append([str(row["id"]), name, str(row["hardware"]), str(row["precision"]), *figures])
    single = [[f"{e} {v}", f"{alone(e, v):.0f}", f"{alone(e, v, 1024):.0f}"] for e, v in ENGINES]
    loads = [
        [m.rpartition("/")[2], str(tp), str(n)]
        + [f"{newest_over_compiled(m, tp, n, host):.2f}" for host in ("", COMPILED)]
        for m, tp, n in LOADS
    ]
    head = ["result", "model", "device", "weights", "published, tokens/s a device", "predicted", "ratio"]
    return PAGE.format(
        within=round(100 * WITHIN),
        low=ALONE_MS[0],
        high=ALONE_MS[1],
        offline=_table(head, offline, 4),
        alone=_table(["engine", "1 token", "1,024 tokens"], single, 1),
        releases=_table(["model", "devices", "in flight", "1.2 over 0.17", "with its host"], loads, 1),
    )


if __name__ == "__main__":
    print(page(), end="")
