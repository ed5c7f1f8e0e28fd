"""`serve`: a deployment, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Draws, InSweeps, Listener, Question, Shared, with_snippet
from windtunnel.commands.draws import normal, uniform
from windtunnel.commands.explanations import of_serving
from windtunnel.scenarios.source import Source
from windtunnel.specs.settings import canonical

if TYPE_CHECKING:
    from windtunnel.serving.results.serving_result import ServingResult

SNIPPET = """\
serving:
  traffic:
    rate_per_s: 4
    num_requests: 1000
    input_tokens: 1024
    output_tokens: 256
"""


@with_snippet(SNIPPET)
def run(
    source: Source, overrides: Sequence[str] = (), *, full: bool = True, listener: Listener = SILENT
) -> ServingResult:
    """Simulate serving; see `windtunnel.serving.simulate.simulate_serving`."""
    from windtunnel.serving.simulate import simulate_serving

    del full
    listener.planned(source, tuple(overrides))
    return simulate_serving(source, overrides=overrides)


def _drawn(question: Question, shared: Shared) -> dict[str, Any]:
    """Another seed of the traffic, the same for all cells of that draw, on a server as far off as some measured one.

    See `windtunnel.serving.results.drawn_server`.
    """
    del shared
    from windtunnel.serving.deployment import prepare
    from windtunnel.serving.results.build_result import drawn_result
    from windtunnel.serving.results.drawn_server import drawn_server
    from windtunnel.serving.simulate import run_requests, with_traffic

    draw = question.draw or 0
    traffic = (question.source.get("serving") or {}).get("traffic") or {}
    seed = int(traffic.get("seed", 0) if isinstance(traffic, dict) else 0)
    d, sent = with_traffic(prepare(question.with_settings({"serving.traffic.seed": seed + 1 + draw})))
    run = run_requests(d, sent.requests, assumed=sent.assumed)
    numbers = (question.seed, draw)
    server = drawn_server(d, canonical(question.source), partial(uniform, *numbers), partial(normal, *numbers))
    return drawn_result(run, server).to_dict()


COMMANDS.add(
    "serve",
    Command(
        id="serve",
        needs=(("serving",),),
        run=run,
        result="windtunnel.serving.results.serving_result:ServingResult",
        view="serve",
        figures=(
            "ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "throughput_requests_per_s", "slo_attainment",
            "saturated", "kv_cache_usage_max", "cost_per_million_output_tokens", "bound_by", "num_devices",
        ),
        main="ttft_s",
        own_section="serving",
        snippet=SNIPPET,
        draws=Draws(
            what="the seed of the traffic, and by how much the server is off, as measured ones are", result=_drawn
        ),
        explained_by=of_serving,
        sweep=InSweeps(cell_cpu_s=0.1, objectives=("ttft_s_p50", "cost_per_million_output_tokens")),
    ),
)  # fmt: skip
