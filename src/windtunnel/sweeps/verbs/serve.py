"""`serve` in a sweep: one load on one deployment a cell."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel.sweeps.cells import canonical
from windtunnel.sweeps.draws import normal, uniform
from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Simulate requests.

    A draw is another seed of the traffic, the same for all cells of that draw, on a server that is as far off its
    prediction as some measured one (`windtunnel.serving.results.drawn_server`).
    """
    del shared
    from windtunnel.serving.simulate import simulate_serving

    if question.draw is None:
        return simulate_serving(question.source).to_dict()
    from windtunnel.serving.deployment import prepare
    from windtunnel.serving.results.build_result import drawn_result
    from windtunnel.serving.results.drawn_server import drawn_server
    from windtunnel.serving.simulate import run_requests, with_traffic

    traffic = (question.source.get("serving") or {}).get("traffic") or {}
    seed = int(traffic.get("seed", 0) if isinstance(traffic, dict) else 0)
    d, sent = with_traffic(prepare(question.with_settings({"serving.traffic.seed": seed + 1 + question.draw})))
    run = run_requests(d, sent.requests, assumed=sent.assumed)
    numbers = (question.seed, question.draw)
    server = drawn_server(d, canonical(question.source), partial(uniform, *numbers), partial(normal, *numbers))
    return drawn_result(run, server).to_dict()


VERBS.add(
    "serve",
    Verb(
        id="serve",
        section="serving",
        answer=answer,
        cell_cpu_s=0.1,
        draws="the seed of the traffic, and by how much the server is off, as measured ones are",
    ),
)
