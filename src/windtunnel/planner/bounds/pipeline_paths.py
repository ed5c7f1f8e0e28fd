"""Earliest ends of stages: what every simulation walks through, for many layouts with one pipeline shape at once."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.planner.bounds.block_costs import BlockCosts
from windtunnel.planner.bounds.pipeline_shape import Pipe, turns_of
from windtunnel.training.step.forward_backward_overlap import least_run


class Paths:
    """Compute paths of g layouts that share pp, vpp and schedule. S stages, K parts, E columns.

    `finish_s` (g, S): earliest end of each stage's own instructions; `whole_s` (g,): of all of them, and of what must
    follow on shallower stages.
    """

    def __init__(self, block_costs: list[BlockCosts], pipe: Pipe, m: Ints, p2p: Mask, schedule: str) -> None:
        """Add cells up along a pipeline; where passes run in pairs, also what else they take in turn.

        Args:
            block_costs: One a layout.
            pipe: How parts follow one another.
            m: Micro-batches of each layout.
            p2p: Whether hops run next to computation, of each.
            schedule: Its id.
        """
        self.block_costs, self.pipe, self.m, self.schedule = block_costs, pipe, m, schedule
        seconds = np.array([costs.seconds for costs in block_costs])  # (g, 3, E)
        in_turn = np.array([costs.in_turn_s for costs in block_costs])  # (g, R, 3, E)
        if in_turn.shape[1]:
            seconds, in_turn = seconds * (least := least_run(pipe.depth)), in_turn * least
        self.forward, self.backward, self.weight = seconds[:, 0], seconds[:, 1], seconds[:, 2]
        hop = np.array([[costs.near_s, costs.far_s] for costs in block_costs])
        blocking = ~p2p[:, None]
        travel = hop @ pipe.hops
        self.fill = self.forward @ pipe.before.T + travel
        self.drain = self.backward @ pipe.before.T + travel
        each = hop @ pipe.sends
        sends = np.where(blocking, each, 0.0)
        self.sent_s: Floats = np.where(blocking[:, 0], 0.0, m * each.max(axis=1))  # one hop of a stage after the other
        passes = (self.forward + self.backward) @ pipe.own.T
        times = m[:, None].astype(np.float64)
        # a weight gradient may come after a stage's last backward: it delays the stage, not the shallower ones
        self.finish_s: Floats = self.fill + times * (passes + self.weight @ pipe.own.T + sends)
        for what in range(in_turn.shape[1]):
            self.finish_s = np.maximum(self.finish_s, times * (in_turn[:, what].sum(axis=1) @ pipe.own.T + sends))
        # a blocking hop after the last backward is part of both the stage and the way down: counted once
        self.twice = np.where(blocking[:, 0], hop.max(axis=1), 0.0)
        self.whole_s = self._whole(self.finish_s, self.fill + times * (passes + sends))

    def _whole(self, finish: Floats, passed: Floats | None = None) -> Floats:
        """Earliest end of everything, from ends of stages (g, S)."""
        latest: Floats = np.maximum(finish.max(axis=1), self.sent_s)
        if not self.pipe.split:
            passed = finish
        if passed is not None:
            latest = np.maximum(latest, (passed + self.drain).max(axis=1) - self.twice)
        return latest

    def with_copies(self, weights: Floats, link: float, pieces: Floats) -> tuple[Floats, Floats]:
        """Ends of stages and of everything where copies from host memory run at the same time.

        A copy in may start when the layer two before its use is done, so that a backward that follows a forward cannot
        have copied ahead more than the forward's last layer lasts; and all copies of a stage are one stream.

        Args:
            weights: Seconds that the weights of one pass of each part take to come in, shape (g, K).
            link: Seconds per byte of offloaded activations.
            pieces: Most pieces that a pass of each part is cut into, shape (g, K).
        """
        pipe = self.pipe
        saved = np.array([costs.saved_bytes for costs in self.block_costs]) @ pipe.depth.T * link
        inwards = weights + saved
        turn_f, turn_b, lead = self._turns()
        to_stage = np.zeros((len(pipe.layers), len(pipe.own)))  # (K, S)
        to_stage[np.arange(len(pipe.layers)), pipe.stage_of] = 1.0
        late = self._late_s(inwards, pieces, turn_f, turn_b)
        finish = self.finish_s + np.maximum(late @ to_stage, 0.0)
        # one stream: from the start where weights come in, else from the first backward on
        forward = self.forward @ pipe.depth.T
        largest = np.stack([forward[:, pipe.stage_of == s].max(axis=1) for s in range(len(pipe.own))], axis=1)
        begin = np.where(np.any(weights, axis=1, keepdims=True), 0.0, self.fill + (lead * forward) @ to_stage - largest)
        each = inwards + np.where(weights > 0, weights, 0.0)
        finish = np.maximum(finish, begin + self.m[:, None] * (each @ to_stage))
        return finish, self._whole(finish)

    def _late_s(self, inwards: Floats, pieces: Floats, turn_f: Floats, turn_b: Floats) -> Floats:
        """(g, K): seconds by which copies delay each part where its stage turns from forward to backward.

        Args:
            inwards: Seconds that copies for one pass of each part take, shape (g, K).
            pieces: Most pieces that a pass is cut into, shape (g, K).
            turn_f: How often a part's forward is directly followed by a backward, shape (g, K).
            turn_b: How often a part's backward directly follows a forward, shape (g, K).
        """
        pipe = self.pipe
        n = np.maximum(np.asarray(pipe.layers, np.float64), 1.0)
        blocks = pipe.depth.copy()
        blocks[:, -2:] = 0.0  # embedding and head run with one piece, the first or the last
        body_f, body_b = self.forward @ blocks.T, self.backward @ blocks.T
        whole_f, whole_b = self.forward @ pipe.depth.T, self.backward @ pipe.depth.T
        last = body_b / pieces
        # the copies pass by the forward's last layer and its blocking hop
        late = turn_f * (body_f * (n - 1.0) / n - whole_f - self.twice[:, None]) + turn_b * (inwards + last - whole_b)
        return np.asarray(late)

    def _turns(self) -> tuple[Floats, Floats, Floats]:
        """`Turns` of all layouts, (g, K) each."""
        stages = len(self.pipe.own)
        chunks = len(self.pipe.layers) // stages
        turns = {m: turns_of(self.schedule, stages, chunks, m) for m in set(self.m.tolist())}
        lines = [turns[m] for m in self.m.tolist()]
        columns = [(t.forward, t.backward, t.lead) for t in lines]
        forward, backward, lead = (np.array(column) for column in zip(*columns, strict=True))
        return forward, backward, lead
