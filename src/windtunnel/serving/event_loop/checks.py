"""What the request loop refuses to run, with every problem at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.errors import BadInput, Problem
from windtunnel.serving.event_loop.fleet import Fleet
from windtunnel.serving.event_loop.requests import Requests

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.loop_rules import LoopRules


def check(requests: Requests, fleet: Fleet, rules: LoopRules | None = None) -> None:
    """Refuse requests that a fleet cannot serve as they say.

    Args:
        requests: what is to be sent.
        fleet: what is to serve.
        rules: of the reference loop; None: those that the limits name.

    Raises:
        BadInput: graphs that no run could end; groups that the fleet does not have; calls to be cancelled where caches
            move between pools, are copied to the host next to iterations, or wait in a queue that has lines of its own.
    """
    problems = _column_problems(requests, fleet)
    if requests.after is not None:
        requests.after.check()
    if requests.after is not None and requests.after.has_cancels:
        problems += _cancel_problems(fleet, rules)
    if problems:
        raise BadInput(problems)


def _column_problems(requests: Requests, fleet: Fleet) -> list[Problem]:
    out, groups = [], len(fleet.lane_groups)
    if len(requests) and not 0 <= requests.pool.min() <= requests.pool.max() < groups:
        wrong = requests.pool[(requests.pool < 0) | (requests.pool >= groups)][0]
        out.append(Problem("requests.pool", f"must be a group of the fleet, from 0 to {groups - 1}", int(wrong)))
    if (requests.reused_tokens < 0).any():
        out.append(Problem("requests.reused_tokens", "must be at least 0", int(requests.reused_tokens.min())))
    keeps = requests.keep_s
    if not ((keeps >= 0) | (keeps == -1)).all():
        wrong_s = keeps[~((keeps >= 0) | (keeps == -1))][0]
        out.append(Problem("requests.keep_s", "must be −1 (drop), 0 (leave) or seconds above 0", float(wrong_s)))
    if keeps.any() and fleet.kv_transfer is not None:
        rule = "hand caches from prefill to decode instances, and blocks that a program holds or drops in a pause stay"
        out.append(Problem("serving.pools", f"{rule} where they were computed: needs pools of role mixed"))
    return out


def _cancel_problems(fleet: Fleet, rules: LoopRules | None) -> list[Problem]:
    problems = []
    if fleet.kv_transfer is not None:
        rule = "hand caches from prefill to decode instances, from where calls are not taken back: a program that stops"
        problems.append(Problem("serving.pools", f"{rule} calls early needs pools of role mixed"))
    if rules is not None and rules.queue is not None:
        own = type(rules.queue)
        if not own.takes_any:
            rule = "counts what it has handed out and gives no queued call back, as a program that stops early asks"
            problems.append(Problem("serving.pools[0].queue", rule, own.id))
        if rules.queue.swaps is not None:
            rule = "does not go with calls that are taken back; leave it out"
            problems.append(Problem("serving.pools[0].kv.swap", rule))
    return problems
