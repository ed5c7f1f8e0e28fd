"""Streaming DiLoCo bit for bit against torchft's public fixtures: constant gradients, fragments, delays and shares.

Three traces are among the shared tables; all six are read where `WINDTUNNEL_TORCHFT` names a checkout of
pytorch/torchft (73dafea). Tests without their data skip.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from learning_runs import ConstantGradient, built, job, run

SHARED = Path(__file__).resolve().parents[4] / "shared/data/learning/streaming-diloco-traces.json"
TORCHFT = os.environ.get("WINDTUNNEL_TORCHFT", "")
SIX = [(delay, alpha) for delay in (0, 1) for alpha in (0.0, 0.5, 1.0)]


def simulated(delay: int, alpha: float, sync_every: int, steps: int) -> tuple[list[list[float]], list[list[float]]]:
    """(parameters of worker 0, anchor) before each local step; two fragments of one entry, two workers."""
    task = ConstantGradient(2.0, ((1,), (1,)), 2)
    to = job(task, steps=steps, lr=1.0)
    diloco = built(
        "streaming-diloco",
        to,
        period=sync_every,
        outer="average",
        outer_lr=2.0,
        fragments=2,
        late=delay,
        lead=True,
        local_share=alpha,
        compressor=None,
    )
    params, anchors = [[1.0, 1.0]], [[1.0, 1.0]]

    def seen(state, step):
        assert (state.params[0] == state.params[1]).all()
        params.append(state.params[0].tolist())
        anchors.append(state.anchor[0].tolist())

    run(diloco, task, to, seen=seen)
    return params, anchors


def shared_traces() -> list[dict]:
    return json.loads(SHARED.read_text())["traces"] if SHARED.exists() else []


@pytest.mark.parametrize("at", range(3))
def test_open_traces_bit_for_bit(at):
    traces = shared_traces()
    if not traces:
        pytest.skip(f"no {SHARED.name} beside the repository")
    trace = traces[at]
    wanted = trace["worker0"]
    params, anchors = simulated(trace["delay_steps"], trace["alpha"], trace["sync_every"], len(wanted) - 1)
    assert params == wanted
    for step, values in trace["globals"].items():
        assert anchors[int(step)] == values


@pytest.mark.parametrize("at", range(6))
def test_all_six_fixtures_bit_for_bit(at):
    if not TORCHFT:
        pytest.skip("WINDTUNNEL_TORCHFT names no checkout of pytorch/torchft")
    name = f"torchft.diloco_regression_test.DiLoCoMockedUpdateTest.test_diloco_mocked_updates_{at}.json"
    data = json.loads((Path(TORCHFT) / "test_fixtures" / name).read_text())
    delay, alpha = SIX[at]
    for worker in data:
        history = worker[0]["history"]
        wanted = [
            [float(np.squeeze(history[str(s)][f"layers.{i}.weight"])) for i in (0, 1)] for s in range(len(history))
        ]
        params, anchors = simulated(delay, alpha, 6, len(wanted) - 1)
        assert params == wanted
        for step, tensors in worker[0]["global_parameter_history"].items():
            assert anchors[int(step)] == [float(np.squeeze(tensors[f"layers.{i}.weight"])) for i in (0, 1)]
