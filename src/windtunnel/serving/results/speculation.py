"""What a run's speculation came to."""

from __future__ import annotations

from typing import Any

from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.event_loop.run import Outcome
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.results.time_breakdown import DECODE, Mean, composition
from windtunnel.serving.speculation.base import Drafting


def speculation_report(
    drafting: Drafting | None, iteration: IterationModel, mean: Mean, outcome: Outcome, requests: Requests
) -> dict[str, Any]:
    """Figures of a run; empty without speculation.

    Args:
        drafting: what drafts.
        iteration: of an instance.
        mean: batch of the run.
        outcome: sums of the run.
        requests: as served.
    """
    if drafting is None:
        return {}
    done = requests.state == DONE
    steps = float(outcome.totals["decode_tokens"].sum())
    answers = float(requests.output_tokens[done].sum())
    first = float(done.sum()) + float(requests.preemptions[done].sum())  # these come from prompts, not from steps
    decode = composition(iteration, mean, mixed=False).get(DECODE, {})
    whole = sum(decode.values())
    return {
        "method": drafting.method,
        "tokens": drafting.tokens,
        "acceptance": list(drafting.acceptance),
        "accepted_length_expected": drafting.tokens_per_step,
        "accepted_length_mean": (answers - first) / steps if steps else 0.0,
        "draft_share_of_decode": decode.get("drafting", 0.0) / whole if whole else 0.0,
        "verified_tokens_per_step": mean.decoding * iteration.step_tokens,
    }
