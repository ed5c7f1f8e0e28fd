"""The front end of a server: one process that takes requests in, tokenises, detokenises and sends every token.

All that it does waits in one queue, the event loop of its process: a request waits for what came before it, new
requests and tokens of running ones alike, and so does each token on its way out. Where that queue stays short nothing
changes (what one request costs alone is `request_s` of the engine's coefficients). Where it grows, requests reach the
engine later and tokens the client later: the engine runs again with these arrivals, which changes when tokens are made,
until both agree.

Source of costs: `front_end` in `stacks/serving/<engine>.yaml`. Valid for: stated arrivals; a closed loop, agents and
rules in Python are served without a front end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.stacks.releases import numbers
from windtunnel.stacks.serving_rules import serving_file

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.requests import Requests
    from windtunnel.serving.event_loop.run import Outcome
    from windtunnel.specs.serving import ServingSpec

QUIET_S = 0.02
"""Longest wait in the front end below which it is left out."""
ROUNDS = 6
"""Runs of the engine after which arrivals and tokens agree well enough; each moves half of the way."""
_TIMES = ("scheduled_s", "first_token_s", "finish_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEnd:
    """Seconds of work of one process, and how many processes share it."""

    request_s: float
    """A request: HTTP, JSON, chat template, tokeniser, message to the engine."""
    token_s: float
    """A token: its share of a message from the engine, detokeniser, event to the client."""
    servers: int
    source: str

    def times(self, factor: float) -> FrontEnd:
        """The same process with so many times the work for everything."""
        return replace(self, request_s=self.request_s * factor, token_s=self.token_s * factor)

    def requests_per_s(self, tokens: float) -> float:
        """Requests a second, of so many tokens of answer each, that it can take."""
        return self.servers / (self.request_s + self.token_s * tokens)


def front_end_of(serving: ServingSpec, version: tuple[int, ...], servers: int) -> FrontEnd | None:
    """The front end of an engine's release; None where no measurement of one is known.

    Args:
        serving: serving section of the scenario.
        version: numbers of the release; empty means the newest.
        servers: API server processes.
    """
    found = None
    for row in serving_file(serving.engine).get("front_end", ()):
        if not version or numbers(str(row["since"])) <= version:
            found = row
    if found is None:
        return None
    interval = max((pool.limits.stream_interval or 1 for pool in serving.pools), default=1)
    token_s = float(found["token_s"]) / interval if serving.streaming else 0.0
    return FrontEnd(request_s=float(found["request_s"]), token_s=token_s, servers=servers, source=found["source"])


def has_stated_arrivals(requests: Requests, concurrency: int | None, *, offline: bool) -> bool:
    """Whether requests come through a server at times of their own: none waits for another one to end."""
    open_loop = not concurrency and not offline and len(requests) > 0
    return open_loop and requests.after is None and not bool((requests.follow >= 0).any())


def waits_s(
    front: FrontEnd, arrival_s: Floats, first_s: Floats, finish_s: Floats, tokens: Floats
) -> tuple[Floats, Floats, Floats]:
    """(3, R): seconds that each request, its first token and its last token wait in the front end.

    Work comes in lumps with requests and first tokens, and evenly with the tokens between the first and the last.

    Args:
        front: what one process does.
        arrival_s: (R,) when each request is sent.
        first_s: (R,) when the engine has its first token; NaN: never.
        finish_s: (R,) when it has the last.
        tokens: (R,) of each answer.
    """
    count, made = len(arrival_s), np.isfinite(first_s) & np.isfinite(finish_s)
    late = np.where(made, first_s, np.inf), np.where(made, finish_s, np.inf)
    at = np.concatenate([arrival_s, *late])
    span = np.maximum(np.where(made, finish_s - first_s, 1.0), 1e-9)
    rate = np.where(made, (tokens - 1) * front.token_s / span, 0.0)
    lump = np.concatenate([np.full(count, front.request_s), np.where(made, front.token_s, 0.0), np.zeros(count)])
    slope = np.concatenate([np.zeros(count), rate, -rate])
    order = np.argsort(at, kind="stable")
    order = order[np.isfinite(at[order])]
    times = at[order]
    gaps = np.diff(times, prepend=times[0])
    flowing = np.concatenate([[0.0], np.cumsum(slope[order])[:-1]])
    before = np.cumsum(flowing * gaps - front.servers * gaps + np.concatenate([[0.0], lump[order][:-1]]))
    # what is left of all work at each moment, just before its own lump
    left = before - np.minimum(np.minimum.accumulate(before), 0.0)
    out = np.zeros(3 * count)
    out[order] = left / front.servers
    return out[:count], out[count : 2 * count], out[2 * count :]


def behind(front: FrontEnd, requests: Requests, run: Callable[[Requests], Outcome]) -> tuple[Outcome, float]:
    """Run an engine behind its front end; times are written into `requests` as its clients see them.

    Args:
        front: what stands before the engine.
        requests: with the times at which they are sent.
        run: runs the engine on requests and writes times into them; can be called again on a fresh copy.

    Returns:
        What the last run left behind, and the longest wait in seconds; 0 where the front end changes nothing.
    """
    sent, tokens = requests.arrival_s.copy(), requests.output_tokens.astype(np.float64)
    fresh = replace(requests, cached_tokens=requests.cached_tokens.copy())
    outcome = run(requests)
    wait, first, last = waits_s(front, sent, requests.first_token_s, requests.finish_s, tokens)
    if max(wait.max(initial=0.0), first.max(initial=0.0)) < QUIET_S:
        return outcome, 0.0
    held = np.zeros(len(sent))
    for _ in range(ROUNDS):
        held = (held + wait) / 2.0
        one = replace(fresh, arrival_s=np.maximum.accumulate(sent + held) if _rising(sent) else sent + held)
        outcome = run(one)
        wait, first, last = waits_s(front, sent, one.first_token_s, one.finish_s, tokens)
    for name in requests.__slots__:
        setattr(requests, name, getattr(one, name))
    requests.arrival_s = sent
    requests.first_token_s = one.first_token_s + first
    requests.finish_s = one.finish_s + last
    return outcome, float(max(wait.max(), first.max()))


def _rising(times: Floats) -> bool:
    return bool((np.diff(times) >= 0.0).all())
