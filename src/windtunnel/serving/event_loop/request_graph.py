"""Programs of model calls as graphs: requests that wait for several others, tools between them, calls taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints
from windtunnel.errors import BadInput, Problem

FIELD = "requests.after"
"""Where a problem of a graph lies."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Order among R requests, with E edges and J joints, numbered R to R + J − 1.

    A request is sent, and a joint begins, when enough of its parents are over (`needs`). A joint is over after its
    `seconds` of service: a join of branches takes none, a tool, a retrieval or a test run does. What a joint `cancels`
    is taken back at the instant at which it is over: queued calls never start, a running call ends with the iteration
    or decode step under way, a tool in service gives its slot back. A node whose parents cannot reach `needs` any more
    because too many of them were cancelled is cancelled too. Columns that are None have no effect.
    """

    start: Ints
    """(R + J + 1,) where each request's (or joint's) children begin."""
    children: Int32s
    """(E,) requests and joints that wait for it."""
    task: Int32s
    """(R,) which task each belongs to."""
    needs: Int32s | None = None
    """(R + J,) how many parents must be over, 0 for a node without parents. None: all of them."""
    seconds: Floats | None = None
    """(J,) service time. None: 0."""
    server: Int32s | None = None
    """(J,) class of tool servers of which a joint occupies one slot, −1: none. A slot goes to the joint that has waited
    longest; of equals, to the lowest number. None: −1."""
    servers: Int32s | None = None
    """(C,) slots of each class."""
    cancels: Int32s | None = None
    """(J, 2) range [from, to) of requests of its own task that each joint takes back."""
    cancels_joints: Int32s | None = None
    """(J, 2) range [from, to) of joints, 0 to J − 1, likewise."""
    over_s: Floats = field(default_factory=lambda: np.zeros(0))
    """(J,) written by the loop: seconds at which each joint was over; nan: never (cancelled)."""

    def __post_init__(self) -> None:
        if len(self.over_s) != self.joints:
            object.__setattr__(self, "over_s", np.full(self.joints, np.nan))

    @property
    def nodes(self) -> int:
        """Requests and joints."""
        return len(self.start) - 1

    @property
    def joints(self) -> int:
        """How many."""
        return self.nodes - len(self.task)

    @property
    def parents(self) -> Ints:
        """(R + J,) nodes that each one waits for."""
        return np.bincount(self.children, minlength=self.nodes)

    @property
    def has_cancels(self) -> bool:
        """Whether some joint takes anything back."""
        ranges = [own for own in (self.cancels, self.cancels_joints) if own is not None]
        return any(bool((own[:, 1] > own[:, 0]).any()) for own in ranges)

    def needed(self) -> Ints:
        """(R + J,) parents of each node that must be over."""
        return self.parents if self.needs is None else self.needs.astype(np.int64)

    def tasks_of_nodes(self) -> Int32s:
        """(R + J,) task of each node: a joint belongs to that of what it waits for."""
        out = np.concatenate([self.task, np.full(self.joints, -1, np.int32)]).astype(np.int32)
        parent = np.repeat(np.arange(self.nodes), np.diff(self.start))
        while True:
            open_ = (out[self.children] < 0) & (out[parent] >= 0)
            if not open_.any():
                return out
            out[self.children[open_]] = out[parent[open_]]

    def check(self) -> None:
        """Refuse graphs that no run could end.

        Raises:
            BadInput: cycles, joints that wait for nothing, counts and ranges that are out of bounds.
        """
        problems = [*self._column_problems(), *self._node_problems()]
        if not problems and self.has_cancels:
            problems = self._cancel_problems()
        if problems:
            raise BadInput(problems)

    def _column_problems(self) -> list[Problem]:
        joints, out = self.joints, []
        shapes: tuple[tuple[str, Any, tuple[int, ...]], ...] = (
            ("needs", self.needs, (self.nodes,)),
            ("seconds", self.seconds, (joints,)),
            ("server", self.server, (joints,)),
            ("cancels", self.cancels, (joints, 2)),
            ("cancels_joints", self.cancels_joints, (joints, 2)),
        )
        for name, own, shape in shapes:
            if own is not None and own.shape != shape:
                out.append(Problem(f"{FIELD}.{name}", f"must have shape {shape}", str(own.shape)))
        if out:
            return out
        if self.seconds is not None and not (np.isfinite(self.seconds) & (self.seconds >= 0)).all():
            out.append(Problem(f"{FIELD}.seconds", "must be finite and at least 0", float(self.seconds.min())))
        classes = 0 if self.servers is None else len(self.servers)
        if self.server is not None and ((self.server < -1) | (self.server >= classes)).any():
            rule = f"must be −1 or a class of `servers`, of which there are {classes}"
            out.append(Problem(f"{FIELD}.server", rule, int(self.server.max(initial=-1))))
        if self.servers is not None and (self.servers < 1).any():
            out.append(Problem(f"{FIELD}.servers", "must be at least 1", int(self.servers.min())))
        for name, ranges, most in (
            ("cancels", self.cancels, len(self.task)),
            ("cancels_joints", self.cancels_joints, joints),
        ):
            if ranges is not None and ((ranges < 0) | (ranges > most)).any():
                out.append(Problem(f"{FIELD}.{name}", f"must lie within 0 and {most}", int(ranges.max())))
        return out

    def _node_problems(self) -> list[Problem]:
        out, parents = [], self.parents
        lonely = np.flatnonzero(parents[len(self.task) :] == 0)
        if len(lonely):
            out.append(Problem(FIELD, f"joint {lonely[0]} waits for nothing; give it a parent"))
        if self.needs is not None and len(self.needs) == self.nodes:
            low = np.minimum(parents, 1)
            wrong = np.flatnonzero((self.needs < low) | (self.needs > parents))
            if len(wrong):
                i = int(wrong[0])
                rule = f"of node {i} must be from {low[i]} to {parents[i]}, the number of its parents"
                out.append(Problem(f"{FIELD}.needs", rule, int(self.needs[i])))
        if not _ends(self.start, self.children, parents):
            out.append(Problem(FIELD, "has a cycle: some requests wait for each other and would never be sent"))
        return out

    def _cancel_problems(self) -> list[Problem]:
        out, tasks, count = [], self.tasks_of_nodes(), len(self.task)
        own = tasks[count:]
        for name, ranges, of in (
            ("cancels", self.cancels, tasks[:count]),
            ("cancels_joints", self.cancels_joints, own),
        ):
            if ranges is None:
                continue
            some = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
            changes = np.concatenate([[0], np.cumsum(np.diff(of) != 0)]) if len(of) else np.zeros(1, np.int64)
            first, last = ranges[some, 0], ranges[some, 1] - 1
            wrong = some[(of[first] != own[some]) | (changes[first] != changes[last])]
            if len(wrong):
                rule = f"of joint {wrong[0]} must be nodes of its own task, {own[wrong[0]]}"
                out.append(Problem(f"{FIELD}.{name}", rule, str(ranges[wrong[0]].tolist())))
        return out


def _ends(start: Ints, children: Int32s, parents: Ints) -> bool:
    """Whether a graph has no cycle: every node can be taken away once all those before it are gone."""
    left, sizes = parents.copy(), np.diff(start)
    rest, gone = np.flatnonzero(left == 0), 0
    while len(rest):
        gone += len(rest)
        counts = sizes[rest]
        first = np.repeat(start[rest] - np.concatenate([[0], counts.cumsum()[:-1]]), counts)
        below = children[first + np.arange(counts.sum())]
        np.subtract.at(left, below, 1)
        below = np.unique(below)
        rest = below[left[below] == 0]
    return gone == len(left)


def parents_of(after: Dependencies | None, follow: Int32s) -> tuple[Ints, Int32s]:
    """What each request or joint waits for.

    Args:
        after: the graph, if there is one.
        follow: (R,) request that is sent after each one ended, or −1.

    Returns:
        (R + J + 1,) where each node's parents begin, and those parents, each node's in the order of their numbers.
    """
    count = len(follow) if after is None else after.nodes
    one = np.flatnonzero(follow >= 0)
    parent, child = one, follow[one].astype(np.int64)
    if after is not None:
        parent = np.concatenate([parent, np.repeat(np.arange(after.nodes), np.diff(after.start))])
        child = np.concatenate([child, after.children])
    order = np.lexsort((parent, child))
    start = np.concatenate([[0], np.bincount(child, minlength=count).cumsum()]).astype(np.int64)
    return start, parent[order].astype(np.int32)
