"""Best number of documents: worth that grows with the logarithm of the context, and dollars from the request loop."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def answers(values: Values, documents: list[int], iterations: int = 1) -> tuple[Point, ...]:
    """By number of documents of a retrieval."""
    knobs = {"documents": documents, "document_tokens": fixed("document"), "iterations": iterations}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=values["concurrency"],
        input_tokens=fixed("question"),
        output_tokens=values["answer"],
        strategies=[{"rag": knobs}],
        tools={"retrieval": {"seconds": fixed("retrieval_s")}},
    )
    return reasoned(scenario)


def dollars(values: Values) -> Floats:
    """(K,) of an answer."""
    points = answers(values, fixed("documents"))
    return np.array([p.cost_usd for p in points], np.float64)


def at(documents: int) -> int:
    """Place in the grid."""
    return int(fixed("documents").index(documents))


def best(values: Values, doublings: float, cost: Floats) -> float:
    """Number of documents, between those of the grid, where the next one costs what it is worth.

    Worth is `doublings` times the simulated dollars of ten documents for each doubling of the context.
    """
    documents = np.array(fixed("documents"), np.float64)
    fine = np.geomspace(documents[0], documents[-1], 2001)
    context = fixed("question") + fine * fixed("document")
    worth = doublings * dollars(values)[at(10)] * np.log2(context)
    return float(fine[(worth - np.interp(fine, documents, cost)).argmax()])


def by_tokens(values: Values) -> Floats:
    """(K,) dollars, were every token of the context as dear as one of ten documents."""
    documents = np.array(fixed("documents"), np.float64)
    context = fixed("question") + documents * fixed("document")
    found: Floats = dollars(values)[at(10)] * context / context[at(10)]
    return found


def worth(values: Values) -> float:
    """Best number at the higher worth over that at the lower."""
    cost = dollars(values)
    low, high = (best(values, d, cost) for d in fixed("doublings"))
    return high / low


def cost_law(values: Values) -> float:
    """Best number by dollars over that by tokens, at the higher worth."""
    most = fixed("doublings")[-1]
    return best(values, most, dollars(values)) / best(values, most, by_tokens(values))


def marginal(values: Values) -> float:
    """Dollars of a late document over those of an early one."""
    cost = dollars(values)
    late = (cost[at(112)] - cost[at(56)]) / (112 - 56)
    return float(late / ((cost[at(20)] - cost[at(10)]) / (20 - 10)))


def iterations(values: Values) -> float:
    """Latency of all documents divided over iterations over that of one pass."""
    most, parts = fixed("documents")[-1], fixed("parts")
    divided = answers(values, [most // parts], iterations=parts)[0]
    return divided.latency_s["mean"] / answers(values, fixed("documents"))[-1].latency_s["mean"]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "inside": lambda v: best(v, fixed("doublings")[0], dollars(v)),
        "worth": worth,
        "cost_law": cost_law,
        "marginal": marginal,
        "iterations": iterations,
    }
