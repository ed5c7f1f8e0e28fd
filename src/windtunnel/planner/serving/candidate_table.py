"""Candidates as a table: one row for a deployment at a load."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.cost.clock import idle_w
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.planner.serving.objectives import Best
from windtunnel.specs.serving import PoolSpec

NOTHING, TOO_SLOW, TOO_MUCH, REFUSED = 0, 1, 2, 3
"""Why a candidate cannot keep the objective: it may; one request alone takes too long; more work than time; the engine
does not start with its limits."""
_WHOLE = (
    "kind",
    "sequences",
    "tokens",
    "replicas",
    "group",
    "impossible",
    "answers",
    "answering",
    "answer_sequences",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One candidate in full."""

    kind: InstanceType
    sequences: int
    """max_num_seqs."""
    tokens: int
    """max_num_batched_tokens."""
    replicas: int
    load: float
    answers: InstanceType | None = None
    """Kind of the instances that answer, where `kind` computes prompts alone."""
    answering: int = 0
    """Number of instances that answer."""
    answer_sequences: int = 0
    """max_num_seqs of the instances that answer."""

    @property
    def devices(self) -> int:
        """Devices in use."""
        other = self.answers.devices * self.answering if self.answers is not None else 0
        return self.kind.devices * self.replicas + other

    @property
    def price(self) -> float | None:
        """Money for a device and hour, over those of both pools."""
        own = self.kind.place.price
        if self.answers is None or self.answers.place is self.kind.place or own is None:
            return own
        other, count = self.answers.place.price, self.answers.devices * self.answering
        return None if other is None else (own * (self.devices - count) + other * count) / self.devices

    @property
    def answer_tokens(self) -> int:
        """max_num_batched_tokens of the instances that answer."""
        assert self.answers is not None
        place = self.answers.sequences.index(self.answer_sequences)
        return self.answers.tokens[self.answers.tokens_with(place)]

    def pools(self, base: PoolSpec) -> tuple[PoolSpec, ...]:
        """Pools of the candidate as a scenario writes them."""
        first = self.kind.pool(base, self.sequences, self.tokens, self.replicas)
        if self.answers is None:
            return (first,)
        second = self.answers.pool(base, self.answer_sequences, self.answer_tokens, self.answering)
        return first.model_copy(update={"role": "prefill"}), second.model_copy(update={"role": "decode"})

    def axes(self) -> dict[str, Any]:
        """What tells it from others, as plain data."""
        out = self.kind.axes() | {
            "replicas": self.replicas,
            "max_num_seqs": self.sequences,
            "max_num_batched_tokens": self.tokens,
        }
        if self.answers is not None:
            p, there = self.answers.plan, self.answers.place
            out["decode"] = ({} if there is self.kind.place else {"device": there.cluster.device.id}) | {
                "tp": p.tp,
                "pp": p.pp,
                "dp": p.dp,
                "ep": p.ep,
                "replicas": self.answering,
                "max_num_seqs": self.answer_sequences,
                "max_num_batched_tokens": self.answer_tokens,
            }
        return out


@dataclass(slots=True, kw_only=True)
class CandidateTable:
    """C candidates, arrays (C,)."""

    kind: Ints
    sequences: Ints
    """Places in the kind's limits."""
    tokens: Ints
    replicas: Ints
    load: Floats
    """Load of all replicas together; 0 where the traffic's own is the only one."""
    group: Ints
    """Candidates that differ in load alone have the same."""
    tokens_per_s: Floats
    """No run puts out more."""
    user_tokens_per_s: Floats
    impossible: Ints
    estimate: Floats
    """(3, C): seconds of TTFT and TPOT, tokens a second; where it settles, estimated."""
    devices: Floats
    price: Floats
    least_w: Floats
    requests_per_token: Floats
    answers: Ints
    """Kind of the instances that answer; −1: those that compute prompts do."""
    answering: Ints
    answer_sequences: Ints
    """Place in their kind's limits."""

    @classmethod
    def of(cls, **columns: Any) -> CandidateTable:
        """From arrays of one shape, (3, …) for `estimate`."""
        out: dict[str, Any] = {}
        for f in fields(cls):
            value = np.asarray(columns[f.name])
            flat = value.reshape(3, -1) if f.name == "estimate" else value.reshape(-1)
            out[f.name] = flat.astype(np.int64 if f.name in _WHOLE else np.float64)
        return cls(**out)

    @classmethod
    def joined(cls, parts: list[CandidateTable]) -> CandidateTable:
        """Tables one after the other."""
        if not parts:
            none = {f.name: np.zeros((3, 0) if f.name == "estimate" else 0) for f in fields(cls)}
            return cls.of(**none)
        whole: Any = {f.name: np.concatenate([getattr(p, f.name) for p in parts], axis=-1) for f in fields(cls)}
        return cls(**whole)

    def __len__(self) -> int:
        return len(self.kind)

    def at(self, kinds: list[InstanceType], i: int) -> Choice:
        """One candidate."""
        kind, other = kinds[int(self.kind[i])], int(self.answers[i])
        more = kinds[other].sequences[int(self.answer_sequences[i])] if other >= 0 else 0
        return Choice(
            kind=kind,
            sequences=kind.sequences[int(self.sequences[i])],
            tokens=kind.tokens[int(self.tokens[i])],
            replicas=int(self.replicas[i]),
            load=float(self.load[i]),
            answers=kinds[other] if other >= 0 else None,
            answering=int(self.answering[i]),
            answer_sequences=more,
        )

    @property
    def best(self) -> Best:
        """The best that each could be."""
        return self.best_of(slice(None))

    def best_of(self, rows: slice) -> Best:
        """The best that some of them could be."""
        tokens = self.tokens_per_s[rows]
        rate = tokens * self.requests_per_token[rows]
        return Best(
            self.devices[rows], self.price[rows], tokens, rate, self.user_tokens_per_s[rows], self.least_w[rows]
        )


def idle_w_of(kind: InstanceType) -> float:
    """Watts of one idle device; 0 where its data sheet gives no power."""
    device = kind.place.cluster.device
    return float(idle_w(device)) if device.tdp_w else 0.0
