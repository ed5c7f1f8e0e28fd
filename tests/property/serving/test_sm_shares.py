"""Laws of prompts and answers side by side: programs of calls, calls taken back, small caches, on stated prices."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from program_cases import program

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, REJECTED, Requests
from windtunnel.serving.event_loop.twin.sm_shares import SmShares
from windtunnel.specs.sm_split import SmSplitSpec

INF = float("inf")


@dataclass(frozen=True)
class Price:
    """An instance's own prices, whatever the share, and shares that both phases ask for."""

    linear: Floats
    limits: Limits
    asked: float

    @property
    def iteration(self) -> Any:
        own = self.limits

        def seconds(tokens: int, *, pairs: float = 0, kv: float = 0, sequences: int = 0, **_: Any) -> float:
            n = min(tokens, len(self.linear) - 1)
            return float(self.linear[n]) + own.pair_s * pairs + own.kv_s * kv + own.per_sequence_s * sequences

        costs = {"prefill_pair_s": 0.0, "prefill_token_s": 0.0, "decode_kv_s": 0.0, "window_kv_s": 0.0, "window": 0}
        return SimpleNamespace(seconds=seconds, **costs)

    def load(self, *_: float) -> float:
        return 0.0

    def sms(self, *_: float) -> float:
        return self.asked


def shared(seed: int, asked: float) -> tuple[Requests, Limits, loop.Outcome]:
    requests, linear, limits, n = program(seed)
    limits = Limits(**{f: getattr(limits, f) for f in KEPT}, mixed=False)
    linear = linear if linear.ndim == 1 else linear[0]
    price: Any = Price(linear, limits, asked)
    spec = SmSplitSpec(prefill_share=0.5)
    rules = LoopRules(execution=lambda one: SmShares(spec, lambda share: price, (INF, INF), None))
    return requests, limits, loop.serve_in_python(requests, linear, limits, n, rules)


KEPT = ("pair_s", "kv_s", "per_sequence_s", "budget", "max_seqs", "block", "blocks", "watermark", "reserve")
KEPT += ("chunked", "caching", "early", "concurrency")


@pytest.mark.parametrize("asked", [0.4, 0.9])
def test_nothing_is_lost_and_littles_law_holds(asked: float) -> None:
    seen = {"cancelled": 0, "cut": 0, "preempted": 0}
    for seed in range(40):
        requests, limits, outcome = shared(seed, asked)
        assert set(requests.state.tolist()) <= {DONE, REJECTED, CANCELLED}
        assert outcome.totals["running_max"].max(initial=0) <= limits.max_seqs
        done, made = requests.state == DONE, requests.generated_tokens
        assert (made[done] == requests.output_tokens[done]).all()
        assert outcome.between_tokens.sum() == (made - (made > 0)).sum()
        cancelled = requests.state == CANCELLED
        seen["cancelled"] += int(cancelled.sum())
        seen["cut"] += int((cancelled & (made > 0) & (made < requests.output_tokens)).sum())
        seen["preempted"] += int(requests.preemptions.sum())
        if not requests.preemptions.any():
            inside = (requests.finish_s - requests.scheduled_s)[requests.scheduled_s >= 0.0].sum()
            assert outcome.totals["running_s"].sum() == pytest.approx(inside, rel=1e-9, abs=1e-9)
    assert all(count > 10 for count in seen.values()), seen


@pytest.mark.parametrize(("asked", "slower"), [(0.4, 1.0), (0.9, 1.8)])
def test_phases_that_ask_for_more_than_all_sms_are_slower(asked: float, slower: float) -> None:
    """The second prompt runs beside the first answer, both at the speed that all SMs allow."""
    limits, linear = Limits(budget=2048, mixed=False, kv_s=1e-7), 0.01 + np.arange(4096) * 1e-5
    price: Any = Price(linear, limits, asked)
    columns = {"input_tokens": np.array([8, 1000], np.int32), "output_tokens": np.array([900, 1], np.int32)}
    requests = Requests(arrival_s=np.array([0.0, 1.0]), **columns)
    rules = LoopRules(execution=lambda one: SmShares(SmSplitSpec(), lambda share: price, (INF, INF), None))
    loop.serve_in_python(requests, linear, limits, 1, rules)
    assert requests.first_token_s[1] - 1.0 == pytest.approx(slower * linear[1000])
