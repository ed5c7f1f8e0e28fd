"""What the reference loop writes into the requests when a run is over."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.fleet import FirstToken, Fleet
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, REJECTED, SHED, Requests
from windtunnel.serving.event_loop.twin.request import Request


def write_back(served: Sequence[Request], requests: Requests, fleet: Fleet) -> None:
    """Write times, places and states of served requests into the columns of `requests`.

    Args:
        served: after the run; each with its answer where another instance made that.
        requests: written to.
        fleet: what served them.
    """
    for q in served:
        i = q.index
        last = q.answer or q
        requests.arrival_s[i], requests.scheduled_s[i] = q.arrival, q.scheduled
        requests.first_token_s[i], requests.finish_s[i] = q.first, last.finish
        requests.preemptions[i], requests.instance[i] = q.preemptions, q.instance
        requests.state[i] = REJECTED if q.rejected else SHED if q.shed else CANCELLED if q.cancelled else DONE
        made = min(q.made, q.output) if q.cancelled else int(requests.output_tokens[i])
        requests.generated_tokens[i] = 0 if q.rejected or q.shed else made
        if fleet.caching:
            requests.cached_tokens[i] = q.hit
        if q.answer is not None and last.instance >= 0:
            assert fleet.kv_transfer is not None
            requests.preemptions[i] += last.preemptions
            requests.prompt_end_s[i], requests.answer_scheduled_s[i] = q.first, last.scheduled
            requests.moved_s[i], requests.answered_by[i] = last.arrival, last.instance
            if fleet.kv_transfer.first is not FirstToken.PREFILL:
                requests.first_token_s[i] = last.first
