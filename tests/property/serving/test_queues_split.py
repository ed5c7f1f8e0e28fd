"""Queue disciplines where prompts and answers are computed on different instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from event_loop_cases import split
from serving_requests import context

from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.requests import DONE, REJECTED
from windtunnel.serving.queues import QUEUES


@pytest.mark.parametrize("id", QUEUES.list())
def test_nobody_is_lost(id: str) -> None:
    for seed in range(900, 912):
        requests, fleet = split(seed)
        requests.tenant = (np.arange(len(requests)) % 3).astype(np.int32)
        reference.serve_fleet(requests, fleet, LoopRules(queue=QUEUES.get(id)(context(3))))
        assert set(requests.state.tolist()) <= {DONE, REJECTED}
        done = requests.state == DONE
        # an answer that joins while a prompt is computed again has no time of its first token (FirstToken.DECODE)
        known = done & np.isfinite(requests.first_token_s)
        assert known.sum() >= 0.9 * done.sum()
        assert (requests.first_token_s[known] <= requests.finish_s[known] + 1e-12).all()


def test_service_is_charged_once_wherever_it_is_given() -> None:
    for seed in range(930, 945):
        requests, fleet = split(seed)
        charged = [0.0]

        class Counting(QUEUES.get("vtc")):  # type: ignore[misc]
            def charge(self, tenant: int, service: float, charged: list[float] = charged) -> None:
                charged[0] += service
                super().charge(tenant, service)

        reference.serve_fleet(requests, fleet, LoopRules(queue=Counting(context(1))))
        done = requests.state == DONE
        if requests.preemptions.any() or not done.all() or fleet.kv_transfer is None:
            continue
        whole: Any = requests.input_tokens[done].sum() + 2.0 * requests.output_tokens[done].sum()
        # a second look at a prompt's last token (FirstToken.DECODE) makes the first token on the other instance
        assert charged[0] == pytest.approx(whole, abs=2.0 * done.sum())
