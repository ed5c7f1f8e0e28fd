"""Which share of prompts of coding sessions a cache still holds, by its time to live."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.attempt_lengths import AttemptLengths
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.specs.programs import ProgramsSpec
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def sessions(values: Values) -> ProgramGraph:
    """Steps of all sessions, with the means of the page."""
    strategy = STRATEGIES.get("coding_agent")
    spec = ProgramsSpec.model_validate(
        {
            "strategy": "coding_agent",
            "problems": fixed("sessions"),
            "offline": True,
            "tools": {"sandbox": {"seconds": values["tool_s"]}},
        }
    )
    count = fixed("sessions")
    work = Workload(
        spec=spec,
        p=np.full(count, 0.5),
        prompt_tokens=np.full(count, 200, np.int64),
        lengths=AttemptLengths(400, 400),
        quality=Quality(),
        seed=0,
    )
    knobs = {name: knob.default for name, knob in strategy.knobs.items()}
    spare = 20_000 - values["first_tokens"]
    knobs |= {"first_tokens": values["first_tokens"], "step_tokens": knobs["step_tokens"] + spare / 42}
    graph = ProgramGraph(np.zeros(count))
    strategy.build(graph, work, knobs)
    return graph


def hit_rate(values: Values, ttl_s: float) -> float:
    """Percent of prompt tokens that are still cached."""
    requests = sessions(values).finish().requests
    random = np.random.default_rng(7)
    count = len(requests)
    user = random.random(count) < values["user_share"]
    means_s: Floats = np.array([values["tool_s"], values["user_s"]], np.float64)
    pause_s = means_s[user.astype(np.int64)] * random.standard_exponential(count)
    kept = np.where(pause_s < ttl_s, requests.prefix_tokens, 0)
    return float(100 * kept.sum() / requests.input_tokens.sum())


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "hit_rate": lambda v: hit_rate(v, fixed("ttl_s")),
        "retention": lambda v: hit_rate(v, 60.0) - hit_rate(v, fixed("ttl_s")),
    }
