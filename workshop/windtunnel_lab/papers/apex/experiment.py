"""Plans of serving searched against tensor parallelism in a node and stages across nodes."""

from __future__ import annotations

from itertools import product

from windtunnel.errors import Infeasible
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def run_of(model: str, trace: str, plan: Values, values: Values, clock: float = 1.0) -> ServingResult | None:
    """One offline run; None where the plan does not fit."""
    prompt, answer = fixed("traces")[trace]
    law: Values = {"distribution": "lognormal", "cv": values["cv"], "min": 1, "max": 8192}
    lengths = [law | {"mean": mean} if values["cv"] else mean for mean in (prompt, answer)]
    where = dict(fixed("cluster"))
    if clock < 1.0:
        where["clock_share"] = clock
    scenario = {
        "model": model,
        "cluster": where,
        "serving": {
            "engine": "vllm",
            "engine_version": "0.6.0",
            "router": "least_work",
            "pools": [{"replicas": plan["replicas"], "plan": {k: n for k, n in plan.items() if k != "replicas"}}],
            "traffic": {
                "offline": True,
                "num_requests": fixed("requests"),
                "input_tokens": lengths[0],
                "output_tokens": lengths[1],
            },
        },
    }
    try:
        return served(scenario)
    except Infeasible:
        return None


def plans(model: str) -> list[Values]:
    """All ways to use all devices alike; models with experts also with attention data parallel next to them."""
    nodes, node = fixed("cluster")["nodes"], fixed("cluster")["devices_per_node"]
    out = [{"tp": tp, "pp": pp, "replicas": nodes * node // (tp * pp)} for tp, pp in product(fixed("tp"), fixed("pp"))]
    if model in fixed("cells")["models"]:
        out += [{"tp": tp, "dp": node // tp, "ep": node, "replicas": nodes} for tp in fixed("tp") if tp < node]
    return out


def cases() -> list[tuple[str, str]]:
    """Models and traces."""
    return list(product(fixed("models"), fixed("traces")))


def best(model: str, trace: str, values: Values) -> tuple[ServingResult, Values]:
    """The fastest run and its plan."""
    runs = [(run, plan) for plan in plans(model) if (run := run_of(model, trace, plan, values))]
    return min(runs, key=lambda item: item[0].duration_s)


def speed_ups(values: Values) -> list[float]:
    """Heuristic over best, by model and trace."""
    out = []
    for model, trace in cases():
        heuristic = run_of(model, trace, fixed("heuristic"), values)
        assert heuristic is not None
        out.append(heuristic.duration_s / best(model, trace, values)[0].duration_s)
    return out


def joules(run: ServingResult) -> float:
    """Energy of all devices over the run, in joules."""
    return float(run.power["energy_j"])


def energy_saved(values: Values) -> float:
    """Against the fastest plan, largest over models and traces."""
    saved = []
    for model, trace in cases():
        fastest = joules(best(model, trace, values)[0])
        runs = [run_of(model, trace, plan, values, clock) for plan, clock in product(plans(model), fixed("clocks"))]
        saved.append(1.0 - min(joules(run) for run in runs if run) / fastest)
    return max(saved)


def example(plan: Values) -> ServingResult:
    """The example of the released tool."""
    own = fixed("example")
    return served(
        {
            "model": "meta-llama/Llama-3.1-70B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
            "serving": {
                "engine": "vllm",
                "engine_version": "0.6.0",
                "precision": {"weights": "fp8"},
                "pools": [{"plan": plan}],
                "traffic": {
                    "offline": True,
                    "num_requests": own["requests"],
                    "input_tokens": own["input"],
                    "output_tokens": own["output"],
                },
            },
        }
    )


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "speed-up": lambda v: max(speed_ups(v)),
        "speed-up/least": lambda v: min(speed_ups(v)),
        "energy": energy_saved,
        "example/tpot": lambda _: example({"pp": 2}).tpot_s.mean / example({"tp": 2}).tpot_s.mean,
        "example/energy": lambda _: joules(example({"pp": 2})) / joules(example({"tp": 2})),
    }
