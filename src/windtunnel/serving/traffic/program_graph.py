"""Programs of model calls as requests: directed graphs of calls, tools, scores, joins and branches.

Agents, searches over trajectories and strategies of inference-time compute all draw their programs here. Nodes are
added in batches: one node for each of many programs at a time, so that nothing loops over nodes in Python.

Kinds of nodes:

* a *text* is part of prompts (a system prompt, a question) and takes no time;
* a *call* is a request to a model: its prompt goes on from a text or from an earlier call, its own tokens come behind;
  a *score* is a call to another pool of instances (a verifier, a reward model, a judge);
* a *tool* (a *retrieval*, a test run) takes seconds and may need a slot of a class of servers;
* a *join* is over when enough of what it waits for is over, and may cancel what is still running: a *branch* that is
  taken when its condition holds is a join of the nodes whose outcomes, drawn before, make it hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from windtunnel.arrays import Floats, Int32s, Ints, Mask
from windtunnel.errors import BadInput, Problem
from windtunnel.machine_memory import require_bytes
from windtunnel.serving.event_loop.prompt_content import Content
from windtunnel.serving.event_loop.request_graph import Dependencies
from windtunnel.serving.event_loop.requests import Requests

MAX_TOKENS = 2**31 - 1
NONE = -1
TEXT, CALL, JOINT = 0, 1, 2
_FIRST_ROOM = 1024
_BYTES_A_NODE = 1000.0
"""Its columns while they grow, its edges, and its request."""
_COLUMNS: tuple[tuple[str, type, float], ...] = (
    ("kind", np.int8, TEXT),
    ("program", np.int64, NONE),
    ("context", np.int64, NONE),
    ("own", np.int64, 0),
    ("prompt", np.int64, 0),
    ("answer", np.int64, 0),
    ("depth", np.int64, 0),
    ("hops", np.int64, 0),
    ("at_s", np.float64, np.nan),
    ("delay_s", np.float64, 0.0),
    ("keep_s", np.float64, 0.0),
    ("reused", np.int64, 0),
    ("pool", np.int32, 0),
    ("source", np.int32, 0),
    ("seconds", np.float64, 0.0),
    ("server", np.int32, NONE),
    ("needs", np.int64, 0),
    ("first_cancelled", np.int64, NONE),
    ("last_cancelled", np.int64, NONE),
)
"""Columns of nodes: name, type, value where nothing is stated. `depth` counts the texts and calls that a prompt is made
of, `hops` the calls on the longest way to a node, itself included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Programs as requests and joints."""

    requests: Requests
    """R calls, program by program, each in the order that its nodes were added."""
    number: Ints
    """(N,) by node: number of the request of a call, R + number of the joint of a tool or join, −1 of a text."""


@dataclass(slots=True)
class _Edges:
    """Who waits for whom, in the order of adding."""

    parents: list[Ints] = field(default_factory=list)
    children: list[Ints] = field(default_factory=list)

    def add(self, parents: Ints, children: Ints) -> None:
        """(B, K) parents, −1 for none, of (B,) children."""
        known = parents >= 0
        self.parents.append(parents[known])
        self.children.append(np.broadcast_to(children[:, None], parents.shape)[known])

    def pairs(self) -> tuple[Ints, Ints]:
        """All parents, and their children."""
        empty = np.zeros(0, np.int64)
        return np.concatenate([empty, *self.parents]), np.concatenate([empty, *self.children])


class ProgramGraph:
    """Nodes of programs, added in batches.

    Every method takes `program`, (B,) numbers of programs, and returns (B,) numbers of nodes. Parents are (B,) or (B,K)
    numbers of nodes with −1 for none; they must have been added before. Numbers of tokens are whole, from 0.

    Args:
        begins_s: (P,) seconds at which each program begins; nan where a closed loop sends it.
        servers: slots of each class of tool servers.
        keep_s: how long KV blocks of a call are held while its program waits, where the call says nothing.
    """

    def __init__(self, begins_s: ArrayLike, servers: tuple[int, ...] = (), keep_s: float = 0.0) -> None:
        self.begins_s: Floats = np.asarray(begins_s, np.float64)
        self.servers = servers
        self.keep_s = keep_s
        self.count = 0
        """Nodes so far."""
        self._columns: dict[str, Any] = {name: np.full(_FIRST_ROOM, value, kind) for name, kind, value in _COLUMNS}
        self._edges = _Edges()

    def __getitem__(self, name: str) -> Any:
        """A column of all nodes so far."""
        return self._columns[name][: self.count]

    def shared_text(self, tokens: int, source: int = 0) -> int:
        """A text that prompts of all programs may begin with; returns its node."""
        return int(self._add(np.array([NONE]), own=tokens, answer=tokens, depth=1, source=source)[0])

    def text(self, program: Ints, tokens: ArrayLike, context: ArrayLike = NONE) -> Ints:
        """A text of each program, `tokens` long, behind `context` (another text)."""
        context = _wide(context, program)
        tokens = _wide(tokens, program)
        before, depth = self._before(context)
        return self._add(program, context=context, own=tokens, answer=before + tokens, depth=depth + 1)

    def call(
        self,
        program: Ints,
        *,
        context: ArrayLike = NONE,
        new: ArrayLike = 0,
        output: ArrayLike,
        joined: ArrayLike | None = None,
        after: ArrayLike | None = None,
        delay_s: ArrayLike = 0.0,
        pool: int = 0,
        source: int = 0,
        keep_s: ArrayLike | None = None,
        reuse: bool = False,
    ) -> Ints:
        """A call of each program.

        Args:
            program: (B,) programs.
            context: text or call that the prompt goes on from: the whole of it, a call's answer included.
            new: tokens that the caller adds behind it.
            output: tokens that the model generates, from 1.
            joined: calls whose answers come between `context` and `new`.
            after: further nodes that it waits for; those of `context` and `joined` it waits for anyway.
            delay_s: seconds between the end of the last of them and the call.
            pool: group of instances that serves it.
            source: number of the agent or strategy that it belongs to.
            keep_s: how long its KV blocks are held for the next call: `Requests.keep_s`.
            reuse: whether the KV of `joined` answers is taken over instead of computed again.
        """
        context = _wide(context, program)
        before, depth = self._before(context)
        added = np.zeros(len(program), np.int64)
        if joined is not None:
            joined = _columns(joined, program)
            added = np.where(joined >= 0, self["answer"][joined] - self["prompt"][joined], 0).sum(1)
        own = added + np.asarray(new, np.int64)
        prompt, output = before + own, _wide(output, program)
        ids = self._add(
            program,
            kind=CALL,
            context=context,
            own=own + output,
            prompt=prompt,
            answer=prompt + output,
            depth=depth + 1,
            delay_s=delay_s,
            pool=pool,
            source=source,
            keep_s=self.keep_s if keep_s is None else keep_s,
            reused=added if reuse else 0,
        )
        calls = np.where((context >= 0) & (self._columns["kind"][context] == CALL), context, NONE)
        self._wait(ids, [calls, joined, after])
        return ids

    def tool(
        self, program: Ints, *, seconds: ArrayLike, after: ArrayLike, server: int = NONE, needs: ArrayLike = 0
    ) -> Ints:
        """A tool (or a retrieval, a test run) of each program.

        Args:
            program: (B,) programs.
            seconds: of service.
            after: nodes that it waits for.
            server: class of servers that it needs a slot of; −1: there is always room.
            needs: how many of `after` must be over; 0: all.
        """
        ids = self._add(program, kind=JOINT, seconds=seconds, server=server, needs=needs)
        self._wait(ids, [after])
        return ids

    def join(
        self,
        program: Ints,
        *,
        after: ArrayLike,
        needs: ArrayLike = 0,
        cancels: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Ints:
        """A joint of each program, which takes no time.

        Args:
            program: (B,) programs.
            after: (B, K) nodes that it waits for; nothing else may be said of what has none.
            needs: how many of them must be over; 0: all.
            cancels: first and last node of a stretch: when the joint is over, every node of its program that was added
                from the one to the other and is not over is cancelled.
        """
        after = _columns(after, program)
        if (after < 0).all(1).any():
            raise BadInput(Problem("programs", "a join waits for nothing; it must name at least one node"))
        first, last = (NONE, NONE) if cancels is None else cancels
        ids = self._add(program, kind=JOINT, needs=needs, first_cancelled=first, last_cancelled=last)
        self._wait(ids, [after])
        return ids

    def has_children(self) -> Mask:
        """(N,) whether anything waits for each node so far."""
        out = np.zeros(self.count, np.bool_)
        out[self._edges.pairs()[0]] = True
        return out

    def finish(self) -> Drawn:
        """All nodes as requests, program by program.

        Raises:
            BadInput: a prompt would be longer than a request can hold.
        """
        if self["answer"].max(initial=0) > MAX_TOKENS:
            longest = int(self["answer"].max())
            raise BadInput(Problem("programs", f"a prompt would grow to {longest:,} tokens; fewer calls"))
        calls, joints = self._ordered(CALL), self._ordered(JOINT)
        number = np.full(self.count, NONE, np.int64)
        number[calls] = np.arange(len(calls))
        number[joints] = len(calls) + np.arange(len(joints))
        parents, children = self._edges.pairs()
        inner = np.zeros(self.count, np.bool_)
        inner[children] = True
        program, prompt = self["program"][calls], self["prompt"][calls]
        at_s = np.where(inner[calls], np.nan, self.begins_s[program] if len(calls) else 0.0)
        requests = Requests(
            arrival_s=at_s,
            input_tokens=prompt.astype(np.int32),
            output_tokens=(self["answer"][calls] - prompt).astype(np.int32),
            delay_s=self["delay_s"][calls].copy(),
            tenant=self["source"][calls].astype(np.int32),
            group=program.astype(np.int32),
            content=self._content(calls),
        )
        assert requests.content is not None
        requests.prefix_tokens = requests.content.found(np.arange(len(calls)), requests.input_tokens)
        requests.after = self._dependencies(number, calls, joints, parents, children)
        requests.pool = self["pool"][calls].copy()
        requests.keep_s = self["keep_s"][calls].copy()
        requests.reused_tokens = self["reused"][calls].astype(np.int32)
        return Drawn(requests=requests, number=number)

    def _add(self, program: Ints, **values: ArrayLike) -> Ints:
        size = len(program)
        if self.count + size > len(self._columns["kind"]):
            room = max(2 * len(self._columns["kind"]), self.count + size)
            require_bytes(_BYTES_A_NODE * room, "programs.problems", f"{room:,} nodes of programs")
            for name, kind, value in _COLUMNS:
                longer: Any = np.full(room, value, kind)
                longer[: self.count] = self._columns[name][: self.count]
                self._columns[name] = longer
        rows = slice(self.count, self.count + size)
        self._columns["program"][rows] = program
        for name, own in values.items():
            self._columns[name][rows] = own
        self.count += size
        return np.arange(rows.start, rows.stop)

    def _before(self, context: Ints) -> tuple[Ints, Ints]:
        """Tokens of what prompts go on from, and how many stretches it has."""
        known = context >= 0
        answer, depth = self._columns["answer"], self._columns["depth"]
        return np.where(known, answer[context], 0), np.where(known, depth[context], 0)

    def _wait(self, ids: Ints, parents: list[ArrayLike | None]) -> None:
        wide = np.concatenate([_columns(own, ids) for own in parents if own is not None], axis=1)
        self._edges.add(wide, ids)
        hops = np.where(wide >= 0, self._columns["hops"][wide], 0).max(axis=1, initial=0)
        self._columns["hops"][ids] = hops + (self._columns["kind"][ids] == CALL)

    def _ordered(self, kind: int) -> Ints:
        """Nodes of a kind by program, in the order of adding."""
        own = np.flatnonzero(self["kind"] == kind)
        return own[np.argsort(self["program"][own], kind="stable")]

    def _content(self, calls: Ints) -> Content:
        """What prompts and answers consist of: texts first, then what calls add, in the order of requests."""
        texts = np.flatnonzero(self["kind"] == TEXT)
        stretch = np.full(self.count, NONE, np.int64)
        stretch[texts] = np.arange(len(texts))
        stretch[calls] = len(texts) + np.arange(len(calls))
        depth = self["depth"][calls]
        start = np.concatenate([[0], depth.cumsum()]).astype(np.int64)
        what = f"what {len(calls):,} prompts are made of, {int(start[-1]):,} stretches,"
        require_bytes(3.0 * 8.0 * float(start[-1]), "programs.problems", what)
        nodes = np.empty(int(start[-1]), np.int32)
        place, own = start[1:] - 1, calls
        while len(own):
            nodes[place] = stretch[own]
            above = self["context"][own]
            on = above >= 0
            place, own = place[on] - 1, above[on]
        return Content(start, nodes, np.concatenate([self["own"][texts], self["own"][calls]]))

    def _dependencies(self, number: Ints, calls: Ints, joints: Ints, parents: Ints, children: Ints) -> Dependencies:
        count = len(calls) + len(joints)
        order = np.argsort(number[parents], kind="stable")
        start = np.concatenate([[0], np.bincount(number[parents], minlength=count).cumsum()]).astype(np.int64)
        waiting = number[children]
        stated = np.concatenate([self["needs"][calls], self["needs"][joints]])
        seconds, server = self["seconds"][joints], self["server"][joints]
        cancels = self._cancelled(calls, joints), self._cancelled(joints, joints)
        return Dependencies(
            start,
            waiting[order].astype(np.int32),
            self["program"][calls].astype(np.int32),
            needs=_needed(stated, waiting) if stated.any() else None,
            seconds=seconds.copy() if seconds.any() else None,
            server=server.copy() if (server >= 0).any() else None,
            servers=np.array(self.servers, np.int32) if self.servers else None,
            cancels=cancels[0] if (self["first_cancelled"] >= 0).any() else None,
            cancels_joints=cancels[1] if (self["first_cancelled"] >= 0).any() else None,
        )

    def _cancelled(self, nodes: Ints, joints: Ints) -> Int32s:
        """(J, 2) places among `nodes`, which stand program by program, of what each joint takes back."""
        key = self["program"][nodes] * self.count + nodes
        first, last = self["first_cancelled"][joints], self["last_cancelled"][joints]
        base = self["program"][joints] * self.count
        ends = np.searchsorted(key, base + first), np.searchsorted(key, base + last, side="right")
        return np.where(first[:, None] >= 0, np.stack(ends, axis=1), 0).astype(np.int32)


def _needed(stated: Ints, waiting: Ints) -> Int32s:
    """(R + J,) how many parents must be over: as stated, else all that a node waits for."""
    return np.where(stated > 0, stated, np.bincount(waiting, minlength=len(stated))).astype(np.int32)


def _wide(values: ArrayLike, program: Ints) -> Ints:
    """(B,) whole numbers of what may be one for all."""
    return np.broadcast_to(np.asarray(values, np.int64), program.shape)


def _columns(values: ArrayLike, program: Ints) -> Ints:
    """(B, K) nodes of what may be (B,), (K,) lists of (B,) or one for all."""
    own = np.asarray(values, np.int64)
    if own.ndim < 2:
        own = np.broadcast_to(own, program.shape)[:, None]
    return own
