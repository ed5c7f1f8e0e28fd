"""What `calibrate --from` results gains on a measured server: a third of its runs fits, the others judge.

`python -m windtunnel_lab.accuracy.calibrated_server ../shared/data > docs/accuracy/serving-calibrated.md`: the 31 runs
of vLLM 0.6.0 on one node of eight H100 (`apex_plus_vllm`), ten of them drawn by `SEED`. The shipped coefficients of
that release line were fitted to all 31 rows, so that the table that counts begins with the priors of that fit.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.calibration.server_fit import ServerFit, fit_server, on_device
from windtunnel.calibration.server_results import MeasuredLoad, simulated
from windtunnel.cost.serving import serving_coefficients
from windtunnel.cost.serving_provenance import flat
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.specs.device import MeasuredValue, Profile
from windtunnel.validation.rows.parsing.serving import read_serving
from windtunnel.validation.rows.parsing.serving_trace import recorded

SET, SEED, SHARE = "apex_plus_vllm", 33, 3
DRAWS = range(100, 110)
"""Seeds of further draws, which say how much the result owes to the draw."""
BARS = {"ttft_mean_s": ("TTFT", 0.08), "itl_mean_s": ("TPOT", 0.03), "e2e_mean_s": ("E2E", None)}


def loads_of(folder: Path, *, shipped: bool) -> list[MeasuredLoad]:
    """Every run of the set, ready to be simulated.

    Args:
        folder: with `serving.json` and the recorded requests.
        shipped: whether the shipped coefficients are the start; otherwise the priors of their fit.
    """
    rows = json.loads((folder / "serving.json").read_text("utf-8"))
    return [_load(row, folder, shipped=shipped) for row in rows if row["set"] == SET]


def drawn(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Places of the third that fits and of the rest."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order[: count // SHARE], order[count // SHARE :]


def _load(row: dict[str, Any], folder: Path, *, shipped: bool) -> MeasuredLoad:
    scenario = read_serving(row).scenario
    assert scenario is not None and scenario.serving is not None
    trace = folder / str(scenario.serving.traffic.trace)
    traffic = scenario.serving.traffic.model_copy(update={"trace": str(trace)})
    serving = scenario.serving.model_copy(update={"traffic": traffic})
    deployment = prepare(scenario.model_copy(update={"serving": serving}))
    requests = recorded(trace)
    tokens = requests.output_tokens
    # the row divides by all tokens of the answers, first ones included
    gaps = float(tokens.sum() / np.maximum(tokens - 1, 0).sum())
    measured = row["metrics"]
    return MeasuredLoad(
        label=str(row["id"]),
        deployment=deployment if shipped else _unfitted(deployment),
        requests=requests,
        figures={
            "ttft_mean_s": measured["ttft_mean_ms"] / 1e3,
            "itl_mean_s": measured["tpot_per_output_token_ms"] / 1e3 * gaps,
            "e2e_mean_s": measured["e2e_mean_ms"] / 1e3,
        },
    )


def _unfitted(d: Deployment) -> Deployment:
    """The same server with the priors of the shipped fit, as a profile."""
    device, serving = d.pools[0].cluster.device, d.serving
    own = serving_coefficients(serving.engine, serving.engine_version, device, fitted=False, streamed=serving.streams)
    values = {name: MeasuredValue(value=value, grade="fitted") for name, value in flat(own).items()}
    return on_device(d, device.model_copy(update={"profile": Profile(serving=values)}))


def judged(loads: list[MeasuredLoad], seed: int) -> tuple[ServerFit, dict[str, tuple[float, float, float]]]:
    """A fit to a third, and of the rest: figure → mean error before, after, and median error after."""
    fits, rest = drawn(len(loads), seed)
    found = fit_server([loads[i] for i in fits], f"{SET}, seed {seed}")
    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in BARS}
    for load in (loads[i] for i in rest):
        before = simulated(load, load.deployment)
        after = simulated(load, on_device(load.deployment, found.device))
        for name, measured in load.figures.items():
            errors[name].append((abs(before[name] / measured - 1.0), abs(after[name] / measured - 1.0)))
    tables = {name: np.array(values) for name, values in errors.items()}
    return found, {
        name: (float(t[:, 0].mean()), float(t[:, 1].mean()), float(np.median(t[:, 1]))) for name, t in tables.items()
    }


def page(folder: Path) -> str:
    """The page."""
    lines = [_HEAD]
    for shipped, title in ((False, "From the priors, before any row"), (True, _SHIPPED)):
        loads = loads_of(folder, shipped=shipped)
        found, errors = judged(loads, SEED)
        others = [judged(loads, seed)[1] for seed in DRAWS]
        fits, rest = drawn(len(loads), SEED)
        lines += [f"## {title}", "", f"{len(fits)} runs fit, {len(rest)} judge.", ""]
        lines += [
            "| of the rest, mean error | bar, % | before, % | after, % | median after, % | after, other draws, % |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        for name, (label, limit) in BARS.items():
            before, after, middle = errors[name]
            spread = [one[name][1] for one in others]
            bar = None if shipped else limit
            missed = " **missed**" if bar is not None and after > bar else ""
            shown = "" if bar is None else f"{100 * bar:.0f}"
            lines.append(
                f"| {label} | {shown} | {100 * before:.1f} | {100 * after:.1f}{missed} | {100 * middle:.1f} | "
                f"{100 * min(spread):.1f} to {100 * max(spread):.1f} |"
            )
        lines += ["", "| coefficient | before | fitted | 80 % interval |", "| --- | ---: | ---: | --- |"]
        lines += [
            f"| `{f.name}` | {f.prior:.3g} | {f.value:.3g} | {f.interval[0]:.3g} … {f.interval[1]:.3g} |"
            for f in found.fitted
        ]
        stayed = ", ".join(f"`{name}` (from `{other}`)" for name, other in found.confounded.items())
        lines += ["", f"Not told apart: {stayed or 'none'}.", ""]
    return "\n".join(lines)


_SHIPPED = "From the shipped coefficients, which were fitted to all 31"
_HEAD = f"""# Serving, calibrated on a third

What `windtunnel calibrate --from` results gains on a server that was measured 31 times: vLLM 0.6.0 on eight H100, two
models, replays of recorded requests (`{SET}`). A third of the runs, drawn by seed {SEED}, fits; the rest judges.
Written by `python -m windtunnel_lab.accuracy.calibrated_server`.

* The first table begins with the priors of the shipped fit, before any row. The second begins with the shipped
  coefficients, which have seen the runs that judge: it is no judgement, and says only that ten runs do not improve what
  31 have fitted.
* The rows hold TTFT, TPOT and E2E and no throughput: the bar of 2 % for throughput is not judged.
* The first result was 14.0 % (TTFT), 3.5 % (TPOT) and 4.5 % (E2E). After it had been looked at, run by run, two rules
  came: figures that queues amplify count less, and the library's collectives may move. No number was chosen on the
  rest; the deviations that figures count with (`server_fit.SIGMA`) are those of replays in general, this set's among
  them.
* What is left is mostly one kind of run: first tokens of Mistral Large in fp8 at tp 4 and 8 come 19 to 43 % too early.
  The draw holds two runs of that model, neither of them with long prompts.
"""


if __name__ == "__main__":
    print(page(Path(sys.argv[1])), end="")
