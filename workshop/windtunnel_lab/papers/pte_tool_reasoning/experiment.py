"""Which count of tokens orders programs with tools as their simulated latencies do, all kinds of them in one queue."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.population.resolve_population import populations
from windtunnel.programs.candidates import Candidate
from windtunnel.programs.run_candidate import Simulated, simulate
from windtunnel.programs.served import deploy
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.scenarios.load import load as load_scenario
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def patterns() -> Ints:
    """(P, 3) calls of tools, tokens of a result and tokens between tools of each program, in random order."""
    kinds = list(product(fixed("steps"), fixed("results"), fixed("answers")))
    every = np.array(kinds * fixed("rounds"), np.int64)
    found: Ints = np.random.default_rng(1).permutation(every)
    return found


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Programs of all kinds side by side: calls with a tool between each two of them."""
    own = patterns()
    at = graph.call(work.problems, context=work.questions(graph), output=own[:, 2])
    for step in range(int(own[:, 0].max())):
        on = np.flatnonzero(own[:, 0] > step)
        told = graph.tool(on, seconds=knobs["tool_s"], after=at[on])
        at[on] = graph.call(on, context=at[on], new=own[on, 1], output=own[on, 2], after=told)
    return Built(ends=at)


@lru_cache(maxsize=16)
def served(tool_s: float, blocks: int) -> Simulated:
    """All programs on one device, so many at once."""
    fields = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        strategy="best_of_n",
        problems=len(patterns()),
        concurrency=fixed("concurrency"),
        input_tokens=300,
    )
    fields["serving"]["pools"][0]["kv"] = {"num_blocks": blocks}
    own, _, folder = load_scenario(fields, ())
    assert own.programs is not None and own.population is not None
    mixed = Strategy(id="mixed_tools", summary="programs of all kinds", build=build)
    candidate = Candidate(strategy=mixed, knobs={"tool_s": tool_s}, stated=(), model=None)
    deployed = deploy(own.model_dump(mode="json", exclude_unset=True), own, folder, None, scored=False)
    return simulate(candidate, own.programs, populations(own.population)[""], deployed)


def correlations(values: Values) -> tuple[float, float]:
    """Of latencies, less their tools, with prefill token equivalents and with tokens."""
    from scipy.stats import spearmanr

    run = served(values["tool_s"], values["blocks"])
    requests, program = run.requests, run.requests.group

    def total(each: Floats) -> Floats:
        return np.asarray(np.bincount(program, each, len(run.latency_s)), np.float64)

    seconds = run.latency_s - patterns()[:, 0] * values["tool_s"]
    prompt, output = requests.input_tokens.astype(float), requests.generated_tokens.astype(float)
    longest = np.zeros(len(seconds))
    np.maximum.at(longest, program, prompt + output)
    weight = fixed("flop_per_byte") * fixed("cached_token_bytes") / (2 * fixed("parameters"))
    equivalents = total(prompt - requests.cached_tokens) + total(output * (1 + weight * (prompt + output / 2)))
    return float(spearmanr(seconds, equivalents)[0]), float(spearmanr(seconds, longest)[0])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""

    def gain(values: Values) -> float:
        pte, tokens = correlations(values)
        return pte - tokens

    return {"pte_above_tokens": gain, "pte": lambda v: correlations(v)[0]}
