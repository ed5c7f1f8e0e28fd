"""Lower bounds of step time and memory for all candidates at once.

Every second and byte comes from the simulator's own functions (cells, `Traffic`, `static_memory`); this module only
adds them up along paths that every simulation has to walk, so bound ≤ simulated by construction:

* a stage cannot start before the first micro-batch came through the shallower parts, runs all its instructions one
  after the other, and after its last backward the shallower parts still have to run theirs;
* what the framework does after the last backward (a reduction that does not overlap, the last bucket of one that does,
  the optimizer, a gather that is not deferred) follows the slowest stage;
* a stream that carries all parameter gathers, or all gradient reductions, takes at least their sum;
* copies from host memory take at least their sum, and may start no earlier than two layers ahead of their use.

Tasks that run side by side can only slow each other down, so times of tasks that run alone are bounds. Memory is
bounded by weights, gradients and optimizer state and by what each layer still holds after its forward, for as many
micro-batches as the schedule keeps in flight.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.planner.balance import fill_bounds
from windtunnel.planner.cells import Cell, build_cell
from windtunnel.planner.energy import work_joules
from windtunnel.planner.keys import Distinct, Keys
from windtunnel.planner.paths import Paths
from windtunnel.planner.pipeline import held_at_once, pipe_of, plan_of
from windtunnel.planner.space import Candidates, Policy
from windtunnel.planner.tails import Case, Held, Tails
from windtunnel.training.offload import copy_rate

__all__ = ["Bounds", "Case", "Screener"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds of every cell of the grid, shape (N, P); infinite where a plan is not legal."""

    time_s: Floats
    memory_bytes: Floats
    cells: int
    """Distinct block costs that were needed."""
    work_j: Floats | None = None
    """Joules of one device in a step, above idling; absent: 0."""


@dataclass(slots=True)
class Screener:
    """Bounds of candidates on one cluster; keeps what several calls can share."""

    case: Case
    capacity_bytes: float = float("inf")
    """Candidates whose memory bound is above need no time bound."""
    _cells: dict[Hashable, Cell] = field(default_factory=dict)

    def bounds(self, x: Candidates) -> Bounds:
        """Bounds of all candidates; the time bound is infinite where memory alone rules a plan out.

        Policies that share compute paths (blocks, schedule, hops) are taken together: what differs is data-parallel
        work and what is kept, which is added by broadcasting.
        """
        time_s, memory = np.full(x.legal.shape, np.inf), np.full(x.legal.shape, np.inf)
        keys = Keys.of(x, self.case.cluster)
        alike: dict[Hashable, list[int]] = {}
        for j, q in enumerate(x.policies):
            if not q.is_open:
                key = (
                    keys.blocks[j], q.recompute.num_layers, q.schedule, q.overlap.p2p, q.order, q.stage_layers,
                )  # fmt: skip
                alike.setdefault(key, []).append(j)
        shape = np.stack([x.pp, x.vpp])
        shapes, of = np.unique(shape, axis=1, return_inverse=True)
        after: list[dict[Hashable, Any]] = [{} for _ in shapes.T]
        for columns in alike.values():
            picked = np.array(columns)
            groups = np.unique(
                np.stack([of.reshape(-1), keys.hops[x.policies[columns[0]].order]]), axis=1, return_inverse=True
            )
            by_group = np.argsort(groups[1].reshape(-1), kind="stable")
            ends = np.cumsum(np.bincount(groups[1].reshape(-1)))
            for number, rows in enumerate(np.split(by_group, ends[:-1])):
                legal = x.legal[np.ix_(rows, picked)]
                if legal.any():
                    used = legal.any(axis=1)
                    grid = np.ix_(rows[used], picked)
                    known = after[int(groups[0][0, number])]
                    time_s[grid], memory[grid] = self._family(x, keys, rows[used], columns, legal[used], known)
        fill_bounds(self.case, x, self.capacity_bytes, time_s, memory)
        time_s[~x.legal], memory[~x.legal] = np.inf, np.inf
        return Bounds(time_s, memory, len(self._cells))

    def work_j(self, x: Candidates, bounds: Bounds) -> Floats:
        """Joules of one device in a step above idling, for candidates with bounds, shape (N, P)."""
        keys = Keys.of(x, self.case.cluster)
        able = np.isfinite(bounds.time_s)
        return work_joules(self.case, x, able, lambda row, j: self._cell(keys.cell(row, j), x, row, j))

    def _family(
        self, x: Candidates, keys: Keys, rows: Ints, columns: list[int], legal: Mask, after: dict[Hashable, Any]
    ) -> tuple[Floats, Floats]:
        """Bounds (n, J) of layouts that share pp and vpp under policies that share compute paths."""
        shape = (len(rows), len(columns))
        time_s, memory = np.full(shape, np.inf), np.full(shape, np.inf)
        policies = [x.policies[j] for j in columns]
        kinds, of = np.unique(keys.weights[rows], return_inverse=True)
        holds = [self._hold(x, keys, rows[of == w], columns[0]) for w in range(len(kinds))]
        first = [int(rows[int(np.flatnonzero(of == w)[0])]) for w in range(len(kinds))]
        known = np.array([h.cell is not None for h in holds])
        sample = next((h for h in holds if h.cell is not None), None)
        if sample is None or sample.cell is None or sample.pipe is None:
            return time_s, memory
        plan = plan_of(sample.cell.plan, x, int(rows[0]), policies[0], self.case.behaviour)
        # few policies differ in what is kept, sent or updated: those are priced, the rest only look up
        holding = Distinct([keys.holds[j] for j in columns])
        sending = Distinct([keys.sends[j] for j in columns])
        updating = Distinct([keys.updates[j] for j in columns])
        tails = [
            Tails(
                self.case, x, row, held, policies, after,
                (w, policies[0].schedule, policies[0].order, policies[0].stage_layers),
            )
            for w, row, held in zip(kinds.tolist(), first, holds, strict=True)
        ]
        lasting = [[t.static(j, keys.holds[columns[j]]) for j in holding.first] for t in tails]
        static = np.array(lasting)[of]  # (n, H, S)
        kept = np.array([h.kept_bytes for h in holds])[of] * x.mbs[rows][:, None]
        counts = {m: held_at_once(plan.schedule, plan.pp, plan.vpp, m) for m in set(x.m[rows].tolist())}
        live = np.array([counts[m] for m in x.m[rows].tolist()])
        stays = np.array([1.0 - policies[j].offload.activations for j in holding.first])
        memory = (static + (kept * live)[:, None, :] * stays[None, :, None]).max(axis=2)[:, holding.of]
        able = legal & known[of][:, None] & (memory <= self.capacity_bytes)
        cells = [
            self._cell(keys.cell(row, columns[0]), x, row, columns[0]) if able[i].any() else None
            for i, row in enumerate(rows.tolist())
        ]
        good = np.array([cell is not None for cell in cells])
        if good.any():
            at = of[good]
            walked = Paths(
                [cell for cell in cells if cell is not None], sample.pipe, x.m[rows[good]], policies[0].overlap.p2p,
                plan.schedule,
            )  # fmt: skip
            copying = Distinct([keys.copies[j] for j in columns])
            finish, whole = self._with_copies(walked, policies, [keys.copies[j] for j in columns], copying, tails, at)
            sent = [[t.sent(j, keys.sends[columns[j]]) for j in sending.first] for t in tails]
            reduce_s = np.array([[t.reduce_s for t in line] for line in sent])[at]  # (g, U, S)
            before = np.array([[t.before_s for t in line] for line in sent])[at]
            after_s = np.array([[t.last_s for t in line] for line in sent])[at]
            streams = np.array([[t.stream_s for t in line] for line in sent])[at]  # (g, U, 2, 2S)
            stream = (streams[:, :, 0] + streams[:, :, 1] * x.m[rows[good]][:, None, None]).max(axis=2)
            both = Distinct(list(zip(sending.of.tolist(), copying.of.tolist(), strict=True)))
            u, c = sending.of[both.first], copying.of[both.first]
            ends = np.maximum((finish[:, c] + reduce_s[:, u]).max(axis=2), whole[:, c])  # (g, pairs)
            update = np.array([[t.update(j, keys.updates[columns[j]]) for j in updating.first] for t in tails])[at]
            done = np.maximum(before[:, u] + ends, stream[:, u]) + after_s[:, u]
            time_s[good] = done[:, both.of] + update[:, updating.of]
        time_s[~able] = np.inf
        return time_s, memory

    def _cell(self, key: Hashable, x: Candidates, row: int, policy: int, *, memory: bool = False) -> Cell | None:
        """The cell of a candidate. A refusal concerns this candidate alone: others of the cell are asked again."""
        if key not in self._cells:
            c = self.case
            cell = build_cell(
                c.model, c.cluster, c.training, x.plan(row, policy), c.techniques, memory=memory, known=c.known
            )  # fmt: skip
            if cell is None:
                return None
            self._cells[key] = cell
        return self._cells[key]

    def _hold(self, x: Candidates, keys: Keys, rows: Ints, j: int) -> Held:
        """What a stage keeps for one sequence of one micro-batch: tensors grow with tokens."""
        key = (int(keys.weights[rows[0]]), keys.blocks[j], "kept")
        for row in rows.tolist():
            cell = self._cell(key, x, row, j, memory=True)
            if cell is not None:
                plan = plan_of(cell.plan, x, row, x.policies[j], self.case.behaviour)
                pipe = pipe_of(cell, plan, self.case.cluster, x.plan(row, j))
                return Held(cell, pipe, cell.kept_bytes @ pipe.own.T / cell.plan.mbs)
        return Held(None, None, np.zeros(int(x.pp[rows[0]])))

    def _with_copies(
        self, walked: Paths, policies: list[Policy], names: list[Hashable], copying: Distinct, tails: list[Tails],
        at: Ints,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Ends of stages (g, C, S), and of all of them (g, C), under each of the C distinct ways to offload."""
        finish, whole = [], []
        for j in copying.first:
            if names[j] is None:
                one = walked.finish_s, walked.whole_s
            else:
                weights = [t.weights_in(j, names[j]) for t in tails]
                offload = policies[j].offload
                link = offload.activations / copy_rate(offload.tier, self.case.cluster)
                width = len(walked.pipe.layers)
                table = np.array([[w, n] if len(w) else np.ones((2, width)) for w, n in weights])[at]  # (g, 2, K)
                one = walked.with_copies(table[:, 0], link, table[:, 1])
            finish.append(one[0])
            whole.append(one[1])
        return np.stack(finish, axis=1), np.stack(whole, axis=1)
