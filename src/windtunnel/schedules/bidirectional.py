"""The order that DualPipe and DualPipeV share: two flows of micro-batches meet on every stage.

A stage runs forwards and backwards of two chunks, those of its near flow (which it sees early) and of its far flow. In
the middle a forward of one flow and a backward of the other run as one unit, so that exchanges of either hide behind
products of the other; weight gradients are split off only where they fill the ramps.

Source: DeepSeek-AI 2024, https://arxiv.org/abs/2412.19437, section 3.2.1, and the phases
that its published schedule names (https://github.com/deepseek-ai/DualPipe): near forwards; forwards in turn; far
backward, its weight gradient, far forward; pairs; far backward and a pair; backwards in turn, the second half with
weight gradients put off; weight gradients and near backwards; the weight gradients left.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Int32s, Mask
from windtunnel.errors import Problem
from windtunnel.schedules.table import B, F, W

NEAR, FAR = 0, 1


class _Stage:
    """The list of one stage as it is written."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, bool]] = []  # kind, flow, number in that flow, joined to the next
        self.next = [[0, 0], [0, 0]]
        self.put_off: deque[tuple[int, int]] = deque()

    def _take(self, kind: int, flow: int) -> int:
        self.next[kind][flow] += 1
        return self.next[kind][flow] - 1

    def forward(self, flow: int, *, joined: bool = False) -> None:
        self.rows.append((F, flow, self._take(F, flow), joined))

    def backward(self, flow: int, *, later: bool = False) -> None:
        number = self._take(B, flow)
        self.rows.append((B, flow, number, not later))
        if later:
            self.put_off.append((flow, number))
        else:
            self.rows.append((W, flow, number, False))

    def weights(self) -> None:
        flow, number = self.put_off.popleft()
        self.rows.append((W, flow, number, False))

    def pair(self, forward: int, backward: int) -> None:
        self.forward(forward, joined=True)
        self.backward(backward)


def stage_order(stages: int, s: int, n: int) -> list[tuple[int, int, int, bool]]:
    """Rows of stage `s` of `stages` on one flow's side: kind, flow, number in the flow, joined to the next row.

    Args:
        stages: stages of one side (half of DualPipe's, all of DualPipeV's).
        s: the stage, 0 where the near flow begins.
        n: micro-batches of each flow, at least 2 · stages.
    """
    x, after = _Stage(), stages - 1 - s
    for _ in range(2 * after):
        x.forward(NEAR)
    for _ in range(s + 1):
        x.forward(NEAR)
        x.forward(FAR)
    for _ in range(after):
        x.backward(FAR, later=True)
        x.weights()
        x.forward(FAR)
    for i in range(n - 2 * stages + s + 1):
        if i == 0 and s == stages - 1:  # the innermost stage has nothing to hide its first backward behind
            x.forward(NEAR)
            x.backward(FAR)
        else:
            x.pair(NEAR, FAR)
        x.pair(FAR, NEAR)
    for _ in range(after):
        x.backward(FAR)
        x.pair(FAR, NEAR)
    later = False
    for i in range(s + 1):
        turn = i == (s + 1) // 2
        later |= turn and s % 2 == 1
        x.backward(FAR, later=later)
        later |= turn and s % 2 == 0
        x.backward(NEAR, later=later)
    for _ in range(after):
        x.weights()
        x.backward(NEAR, later=True)
    while x.put_off:
        x.weights()
    return x.rows


def columns(
    rows: list[list[tuple[int, int, int, bool]]],
) -> tuple[npt.NDArray[np.int8], Int32s, Int32s, Mask]:
    """Kind, flow, number and joined of all stages, shape (p, length)."""
    data = np.asarray(rows, np.int32)
    return data[:, :, 0].astype(np.int8), data[:, :, 1], data[:, :, 2], data[:, :, 3].astype(np.bool_)


def enough(name: str, least: int, m: int) -> Problem | None:
    """The rule on micro-batches of both schedules."""
    rule = f"schedule {name} needs at least {least} of them here"
    return None if m >= least else Problem("micro_batches", rule, m)
