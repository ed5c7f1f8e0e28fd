"""What a load generator is: a writer of one command, and the requests in a file where its own laws cannot draw them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.exporters.servers.target import quoted
from windtunnel.exporters.wrappers import comment
from windtunnel.registry import Registry
from windtunnel.serving.traffic import generate
from windtunnel.specs.lengths import Lengths

if TYPE_CHECKING:
    from windtunnel.exporters.servers.deployed import Deployed
    from windtunnel.exporters.target import OptionList
    from windtunnel.serving.traffic import Traffic
    from windtunnel.specs.traffic import TrafficSpec

MOST_REQUESTS = 5000
"""Requests of a written file; more are cut, and said."""
BLOCK = 16
"""Tokens that one prefix hash of a written file stands for."""
REQUESTS = "requests.jsonl"


@dataclass(frozen=True, slots=True)
class Target:
    """What is loaded, and with which options."""

    deployed: Deployed
    known: OptionList
    model: str
    port: int


@dataclass(slots=True, kw_only=True)
class Load:
    """One command."""

    known: OptionList
    program: str
    model: str
    port: int
    options: list[tuple[str, ...]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def set(self, option: str, *values: Any) -> None:
        """Add an option, or say that this version does not take it."""
        refusal = self.known.refuses(option, *values)
        if refusal:
            self.lacks(refusal)
        else:
            self.options.append((option, *(quoted(str(value)) for value in values)))

    def lacks(self, what: str) -> None:
        """Note once that the generator has no word for something."""
        if what not in self.unsupported:
            self.unsupported.append(what)

    def script(self, head: list[str]) -> str:
        """The command as a script; `HOST` and `PORT` say where the servers answer."""
        return (
            "\n".join(
                [
                    "#!/usr/bin/env bash",
                    comment(head).rstrip(),
                    "set -euo pipefail",
                    'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',
                    f'MODEL="${{MODEL:-{self.model}}}"',
                    'HOST="${HOST:-127.0.0.1}"',
                    f'PORT="${{PORT:-{self.port}}}"',
                    "ARGS=(",
                    *(f"  {' '.join(words)}" for words in self.options),
                    ")",
                    f'exec {self.program} "${{ARGS[@]}}" "$@"',
                ]
            )
            + "\n"
        )


@dataclass(frozen=True, slots=True)
class Generator:
    """One load generator."""

    title: str
    write: Callable[[Target], Load]


LOADS: Registry[Generator] = Registry("loads", package="windtunnel.exporters.servers.loads", noun="load generator")


def span(lengths: int | Lengths | None) -> tuple[int, int] | None:
    """(least, most) of a law that is even between them; None for any other law."""
    if isinstance(lengths, int):
        return lengths, lengths
    if lengths is None:
        return None
    if lengths.distribution == "fixed" and lengths.mean is not None:
        return round(lengths.mean), round(lengths.mean)
    if lengths.distribution == "uniform" and lengths.min is not None and lengths.max is not None:
        return lengths.min, lengths.max
    return None


def mean_of(lengths: int | Lengths | None) -> int:
    """Mean tokens of a law; of one without a stated mean the middle of its bounds."""
    if isinstance(lengths, int):
        return lengths
    mean = getattr(lengths, "mean", None)
    values = getattr(lengths, "values", ())
    least, most = getattr(lengths, "min", None), getattr(lengths, "max", None)
    found = mean or (sum(values) / len(values) if values else ((least or 1024) + (most or 1024)) / 2)
    return round(found)


def requests_of(deployed: Deployed) -> Traffic:
    """The very requests that were simulated; in a closed loop each trajectory counts."""
    traffic = generate(deployed.serving.traffic, folder=deployed.folder)
    search = traffic.spec.trajectories
    return traffic if search is None else replace(traffic, concurrency=traffic.concurrency * search.width)


def count_of(spec: TrafficSpec, traffic: Traffic) -> int:
    """How many requests are sent."""
    if spec.agents or spec.trajectories:
        return len(traffic.requests)
    return spec.num_requests or len(traffic.requests)


def waits(traffic: Traffic, load: Load) -> bool:
    """Whether requests wait for several others, which no load generator does; it says so."""
    found = traffic.requests.after is not None
    if found:
        load.lacks("agents and trajectories: requests that wait for others are sent as they are listed")
    return found


def as_lines(traffic: Traffic, load: Load) -> str:
    """Requests in Mooncake's format: milliseconds, tokens and a hash for every `BLOCK` tokens of a prompt.

    Hashes tell which prompts begin alike: blocks of a trace, or the prefix that all share. Turns of a session name it
    and give what the turn adds and the pause before it.
    """
    from windtunnel.serving.event_loop.prefix_chains import chains_of

    r = traffic.requests
    count = min(len(r), MOST_REQUESTS)
    if count < len(r):
        load.notes.append(f"{REQUESTS} holds the first {count:,} of {len(r):,} requests")
    before = np.full(len(r), -1)
    before[r.follow[r.follow >= 0]] = np.flatnonzero(r.follow >= 0)
    chains = chains_of(r, BLOCK, traffic.spec.shared_prefix_tokens) if traffic.trace or (before < 0).all() else None
    first = np.concatenate([[0], np.cumsum(chains.size, dtype=np.int64)]) if chains else None
    out = []
    for i in range(count):
        line: dict[str, Any] = {}
        prompt = int(r.input_tokens[i])
        if before[i] >= 0:
            j = int(before[i])
            prompt = max(prompt - int(r.input_tokens[j]) - int(r.output_tokens[j]), 1)
            line |= {"session_id": f"s{int(r.group[i])}", "delay": round(float(r.delay_s[j]) * 1e3, 3)}
        elif chains is None:
            line |= {"session_id": f"s{int(r.group[i])}"}
        if np.isfinite(r.arrival_s[i]):
            line["timestamp"] = round(float(r.arrival_s[i]) * 1e3, 3)
        line |= {"input_length": prompt, "output_length": int(r.output_tokens[i])}
        if chains is not None and first is not None:
            ids: list[int] = []
            for node in chains.nodes[chains.start[i] : chains.start[i + 1]]:
                ids += range(int(first[node]), int(first[node]) + int(chains.size[node]))
            own = int(first[-1]) + i  # the last, partial block
            whole = ids[: prompt // BLOCK]
            line["hash_ids"] = whole + [own] * (-(-prompt // BLOCK) - len(whole))
        out.append(json.dumps(line))
    return "\n".join(out) + "\n"
