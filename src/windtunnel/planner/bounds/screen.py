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

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.planner.bounds.block_costs import Cell, build_cell
from windtunnel.planner.bounds.cost_sharing_keys import Group, Keys
from windtunnel.planner.bounds.data_parallel_costs import Case, Held, Tails
from windtunnel.planner.bounds.energy import work_joules
from windtunnel.planner.bounds.forked_screen import WORTH, both, can_copy, halves, shared, uncollected
from windtunnel.planner.bounds.open_candidates import fill_bounds
from windtunnel.planner.bounds.order_free_bounds import Loose, is_loose
from windtunnel.planner.bounds.pipeline_paths import Paths
from windtunnel.planner.bounds.pipeline_shape import Pipe, held_at_once, pipe_of, plan_of
from windtunnel.planner.space.candidates import Candidates
from windtunnel.planner.space.technique_rewrites import Rewritten, rewriting
from windtunnel.training.step.offload_tasks import least_rate

__all__ = ["Bounds", "Case", "Screener"]


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
    _rewritten: tuple[Candidates, Rewritten, list[Screener]] | None = None
    """The latest candidates, what techniques make of them, and who screens each part of that."""
    _phases: list[tuple[float, Screener]] | None = None

    def bounds(self, x: Candidates) -> Bounds:
        """Bounds of all candidates; the time bound is infinite where memory alone rules a plan out.

        Of a run with phases time is the mean of theirs, and memory that of the fullest.
        """
        if not self.case.phases:
            return self._of_steps(x)
        found = [(share, one._of_steps(x)) for share, one in self._parts()]
        time_s = sum((share * own.time_s for share, own in found), np.zeros(x.legal.shape))
        memory = np.maximum.reduce([own.memory_bytes for _, own in found])
        return Bounds(time_s, memory, sum(own.cells for _, own in found))

    def _parts(self) -> list[tuple[float, Screener]]:
        """Share of each kind of step, and who screens it."""
        if self._phases is None:
            self._phases = [(share, Screener(case, self.capacity_bytes)) for share, case in self.case.kinds_of_steps]
        return self._phases

    def _of_steps(self, x: Candidates) -> Bounds:
        """Bounds of steps of one kind: of what techniques make of every candidate."""
        if not rewriting(self.case.techniques):
            return self._as_written(x)
        rewritten, screeners = self._after(x)
        time_s, memory = np.full(x.legal.shape, np.inf), np.full(x.legal.shape, np.inf)
        cells = 0
        for grid, screener in zip(rewritten.grids, screeners, strict=True):
            own = screener._as_written(grid.candidates)
            time_s[grid.rows, grid.columns] = own.time_s[grid.to_rows, grid.to_columns]
            memory[grid.rows, grid.columns] = own.memory_bytes[grid.to_rows, grid.to_columns]
            cells += own.cells
        time_s[rewritten.unknown[:, 0], rewritten.unknown[:, 1]] = 0.0
        memory[rewritten.unknown[:, 0], rewritten.unknown[:, 1]] = 0.0
        return Bounds(time_s, memory, cells)

    def _after(self, x: Candidates) -> tuple[Rewritten, list[Screener]]:
        """What techniques make of candidates, and who screens each grid of it."""
        if self._rewritten is None or self._rewritten[0] is not x:
            rewritten = Rewritten.of(self.case, x)
            screeners = [Screener(self.case, self.capacity_bytes) for _ in rewritten.grids]
            self._rewritten = x, rewritten, screeners
        return self._rewritten[1:]

    def located(self, x: Candidates, row: int, policy: int) -> tuple[Candidates, int, int]:
        """Where a candidate stands after the techniques; where it stood if only a simulation tells."""
        if not rewriting(self.case.techniques):
            return x, row, policy
        return self._after(x)[0].located(row, policy) or (x, row, policy)

    def _as_written(self, x: Candidates) -> Bounds:
        """Bounds of candidates that no technique rewrites.

        Policies that walk pipelines alike (schedule, layers that recompute, mesh order) are taken together: their
        blocks are further lines of the same arrays; data-parallel work and what is kept are looked up.
        """
        keys = Keys.of(x, self.case.cluster)
        cells = np.zeros(2)
        if x.count >= WORTH and can_copy():
            time_s, memory, cells = shared(x.legal.shape), shared(x.legal.shape), shared((2,))
        else:
            time_s, memory = np.empty(x.legal.shape), np.empty(x.legal.shape)
        time_s[:], memory[:] = np.inf, np.inf

        def fill(rows: Ints) -> None:
            self._fill(x, keys, rows, time_s, memory)
            cells[int(rows[0] != first[0])] = len(self._cells)

        first, second = halves(x)
        with uncollected():
            if x.count >= WORTH and can_copy() and len(second):
                both(fill, first, second)
            else:
                fill(np.arange(len(x.tp)))
        fill_bounds(self.case, x, self.capacity_bytes, time_s, memory)
        self._fill_loose(x, keys, time_s, memory)
        time_s[~x.legal], memory[~x.legal] = np.inf, np.inf
        return Bounds(time_s, memory, int(cells.sum()))

    def _fill_loose(self, x: Candidates, keys: Keys, time_s: Floats, memory: Floats) -> None:
        """Bounds of policies whose pipelines fit no path."""
        loose = Loose(self.case, x)
        for j, q in enumerate(x.policies):
            if not is_loose(self.case, x, q):
                continue
            for row in np.flatnonzero(x.legal[:, j]).tolist():
                key = (row, j) if x.base.gather_per_block else keys.cell(row, j)  # gathers depend on the order
                cell = self._cell(("loose", key), x, row, j)
                if cell is not None:
                    time_s[row, j], memory[row, j] = loose.bounds(row, j, cell)
                    if memory[row, j] > self.capacity_bytes:
                        time_s[row, j] = np.inf

    def _fill(self, x: Candidates, keys: Keys, part: Ints, time_s: Floats, memory: Floats) -> None:
        """Bounds of the layouts `part` of policies that leave nothing to be split or chosen."""
        alike: dict[Hashable, list[int]] = {}
        for j, q in enumerate(x.policies):
            if not q.is_open and not is_loose(self.case, x, q):
                alike.setdefault((q.recompute.num_layers, q.schedule, q.order, q.stage_layers), []).append(j)
        known: dict[Hashable, Any] = {}
        for columns in alike.values():
            group = Group.of(x, keys, columns)
            shapes = np.stack([x.pp, x.vpp, keys.hops[group.policies[0].order]])[:, part]
            of = np.unique(shapes, axis=1, return_inverse=True)[1].reshape(-1)
            for mine in np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1]):
                rows = part[mine]
                legal = x.legal[rows][:, group.columns]
                used = legal.any(axis=1)
                if used.any():
                    grid = np.ix_(rows[used], np.array(group.columns))
                    time_s[grid], memory[grid] = self._family(x, keys, rows[used], group, legal[used], known)

    def work_j(self, x: Candidates, bounds: Bounds) -> Floats:
        """Joules of one device in a step above idling, for candidates with bounds, shape (N, P)."""
        if self.case.phases:
            parts = (share * one._work_of_steps(x, bounds) for share, one in self._parts())
            return sum(parts, np.zeros(x.legal.shape))
        return self._work_of_steps(x, bounds)

    def _work_of_steps(self, x: Candidates, bounds: Bounds) -> Floats:
        if not rewriting(self.case.techniques):
            return self._work_as_written(x, np.isfinite(bounds.time_s))
        out = np.zeros(x.legal.shape)
        rewritten, screeners = self._after(x)
        for grid, screener in zip(rewritten.grids, screeners, strict=True):
            able = np.zeros(grid.candidates.legal.shape, np.bool_)
            able[grid.to_rows, grid.to_columns] = np.isfinite(bounds.time_s[grid.rows, grid.columns])
            own = screener._work_as_written(grid.candidates, able)
            out[grid.rows, grid.columns] = own[grid.to_rows, grid.to_columns]
        return out

    def _work_as_written(self, x: Candidates, able: Mask) -> Floats:
        keys = Keys.of(x, self.case.cluster)
        able = able & ~np.array([is_loose(self.case, x, q) for q in x.policies])  # what they run is not known
        return work_joules(self.case, x, able, lambda row, j: self._cell(keys.cell(row, j), x, row, j))

    def _family(
        self, x: Candidates, keys: Keys, rows: Ints, group: Group, legal: Mask, known: dict[Hashable, Any]
    ) -> tuple[Floats, Floats]:
        """Bounds (n, J) of layouts with one pipeline shape under policies that walk it alike."""
        time_s, memory = np.full(legal.shape, np.inf), np.full(legal.shape, np.inf)
        kinds, of = np.unique(keys.weights[rows], return_inverse=True)
        shape = (int(x.pp[rows[0]]), int(x.vpp[rows[0]]), int(keys.hops[group.policies[0].order][rows[0]]))
        members = [rows[of == w] for w in range(len(kinds))]
        holds = [
            [self._hold(x, keys, m, group, v, shape, known) for v in range(len(group.blocks.first))] for m in members
        ]
        sample = next((h for line in holds for h in line if h.cell is not None), None)
        if sample is None or sample.cell is None or sample.pipe is None:
            return time_s, memory
        plan = plan_of(sample.cell.plan, x, int(rows[0]), group.policies[0], self.case.behaviour)
        walk = (shape, plan.schedule, group.policies[0].stage_layers)
        able_ones = [next((h for h in line if h.cell is not None), line[0]) for line in holds]
        spread = keys.spread[group.policies[0].order]
        tails = [
            Tails(self.case, x, int(m[0]), h, group.policies, known, (walk, w), int(spread[m[0]]))
            for w, m, h in zip(kinds.tolist(), members, able_ones, strict=True)
        ]
        memory = self._memory(x, rows, of, group, holds, tails, plan.schedule)
        present = np.array([[h.cell is not None for h in line] for line in holds])[of]  # (n, V)
        able = legal & present[:, group.blocks.of] & (memory <= self.capacity_bytes)
        lines, cells, offsets = [], [], []
        for v, j in enumerate(group.blocks.first):
            mine = np.flatnonzero(able[:, group.blocks.of == v].any(axis=1))
            found = [
                self._cell(keys.cell(int(rows[i]), group.columns[j]), x, int(rows[i]), group.columns[j]) for i in mine
            ]
            good = [k for k, cell in enumerate(found) if cell is not None]
            lines.append(mine[good])
            cells += [cell for cell in found if cell is not None]
            offsets.append(len(cells))
        if cells:
            times = self._times(
                x, rows, of, group, np.concatenate(lines), cells, offsets, sample.pipe, plan.schedule, tails
            )
            for v, (mine, block) in enumerate(zip(lines, np.split(times, offsets[:-1]), strict=True)):
                picked = np.flatnonzero(group.blocks.of == v)
                time_s[np.ix_(mine, picked)] = block[:, group.joint.of[picked]]
        time_s[~able] = np.inf
        return time_s, memory

    def _memory(
        self,
        x: Candidates,
        rows: Ints,
        of: Ints,
        group: Group,
        holds: list[list[Held]],
        tails: list[Tails],
        schedule: str,
    ) -> Floats:
        """Lower bounds of memory, shape (n, J)."""
        pp, vpp = int(x.pp[rows[0]]), int(x.vpp[rows[0]])
        static = np.array([[t.static(j, group.holds[j]) for j in group.holding.first] for t in tails])[of]  # (n, H, S)
        live = np.array([held_at_once(schedule, pp, vpp, m) for m in x.m[rows].tolist()])
        stays = np.array([1.0 - group.policies[j].offload.activations for j in group.holding.first])
        out = np.empty((len(rows), len(group.columns)))
        for v in range(len(group.blocks.first)):
            kept = np.array([line[v].kept_bytes for line in holds])[of] * x.mbs[rows][:, None] * live
            picked = np.flatnonzero(group.blocks.of == v)
            peaks = (static + kept[:, None, :] * stays[None, :, None]).max(axis=2)
            out[:, picked] = peaks[:, group.holding.of[picked]]
        return out

    def _times(
        self,
        x: Candidates,
        rows: Ints,
        of: Ints,
        group: Group,
        lines: Ints,
        cells: list[Cell],
        offsets: list[int],
        pipe: Pipe,
        schedule: str,
        tails: list[Tails],
    ) -> Floats:
        """Lower bounds of time (L, joint): of lines, a layout under one way to cut blocks each.

        A column is a distinct combination of what is sent, copied and updated.
        """
        at, m = of[lines], x.m[rows[lines]]
        given = np.repeat(group.p2p, np.diff([0, *offsets]))
        default = np.array([cell.plan.overlap_p2p for cell in cells])
        walked = Paths(cells, pipe, m, np.where(given < 0, default, given > 0), schedule)
        copied = [self._with_copies(walked, group, j, tails, at) for j in group.copying.first]
        sent = [[t.sent(j, group.sends[j]) for j in group.sending.first] for t in tails]
        reduce_s = np.array([[one.reduce_s for one in line] for line in sent])  # (W, U, S)
        before = np.array([[one.before_s for one in line] for line in sent])
        last = np.array([[one.last_s for one in line] for line in sent])
        stream = np.array([[one.stream_s for one in line] for line in sent])  # (W, U, 2, 2S)
        tied = np.array([[one.tied_s for one in line] for line in sent])
        update = np.array([[t.update(j, group.updates[j]) for j in group.updating.first] for t in tails])
        out = np.empty((len(lines), len(group.joint.first)))
        done: dict[tuple[int, int], Floats] = {}
        for column, j in enumerate(group.joint.first):
            u, c, d = int(group.sending.of[j]), int(group.copying.of[j]), int(group.updating.of[j])
            if (u, c) not in done:
                finish, whole = copied[c]
                # a reduction waits for the last backward, not for the hop after it, which the first part has not
                after = walked.twice[:, None] * (np.arange(finish.shape[1]) != pipe.stage_of[0])
                ends = np.maximum((finish + reduce_s[at, u] - after).max(axis=1), whole)
                ends = np.maximum(ends, finish[:, pipe.stage_of[0]] + tied[at, u])
                flow = (stream[at, u, 0] + stream[at, u, 1] * m[:, None]).max(axis=1)
                done[u, c] = np.maximum(before[at, u] + ends, flow) + last[at, u]
            out[:, column] = done[u, c] + update[at, d]
        return out

    def _cell(self, key: Hashable, x: Candidates, row: int, policy: int, *, memory: bool = False) -> Cell | None:
        """The cell of a candidate. A refusal concerns this candidate alone: others of the cell are asked again."""
        if key not in self._cells:
            c = self.case
            cell = build_cell(
                c.model, c.cluster, c.training, x.plan(row, policy), c.techniques, memory=memory, known=c.known
            )
            if cell is None:
                return None
            self._cells[key] = cell
        return self._cells[key]

    def _hold(
        self,
        x: Candidates,
        keys: Keys,
        rows: Ints,
        group: Group,
        v: int,
        shape: tuple[int, int, int],
        known: dict[Hashable, Any],
    ) -> Held:
        """What a stage keeps for one sequence of one micro-batch: tensors grow with tokens."""
        first = group.blocks.first[v]
        j, q = group.columns[first], group.policies[first]
        kind = int(keys.weights[rows[0]])
        walk = (shape, q.recompute.num_layers, q.schedule, q.stage_layers)
        name = ("held", walk, kind, keys.blocks[j])
        if name in known:
            found: Held = known[name]
            return found
        for row in rows.tolist():
            cell = self._cell((kind, keys.blocks[j], "kept"), x, row, j, memory=True)
            if cell is not None:
                plan = plan_of(cell.plan, x, row, q, self.case.behaviour)
                if ("pipe", walk) not in known:
                    known["pipe", walk] = pipe_of(cell, plan, self.case.cluster, x.plan(row, j))
                pipe: Pipe = known["pipe", walk]
                known[name] = Held(cell, pipe, cell.kept_bytes @ pipe.own.T / cell.plan.mbs)
                return self._hold(x, keys, rows, group, v, shape, known)
        return Held(None, None, np.zeros(shape[0]))

    def _with_copies(self, walked: Paths, group: Group, j: int, tails: list[Tails], at: Ints) -> tuple[Floats, Floats]:
        """Ends of stages (L, S), and of all of them (L,), under one way to offload."""
        if group.copies[j] is None:
            return walked.finish_s, walked.whole_s
        offload = group.policies[j].offload
        if offload.prefetch_layers > 2:  # copies further ahead: only that they cannot make a step shorter
            return walked.finish_s, walked.whole_s
        weights = [t.weights_in(j, group.copies[j]) for t in tails]
        link = offload.activations / least_rate(offload, self.case.cluster)
        width = len(walked.pipe.layers)
        table = np.array([[w, n] if len(w) else np.ones((2, width)) for w, n in weights])[at]  # (L, 2, K)
        return walked.with_copies(table[:, 0], link, table[:, 1])
