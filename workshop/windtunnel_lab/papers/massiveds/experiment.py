"""Bytes, FLOP and seconds of a datastore of 1.4 trillion tokens."""

from __future__ import annotations

import math

from windtunnel.laws import LAWS
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import prompt_s
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def tier(values: Values, figure: str, **more: float) -> float:
    """One figure of the retrieval tier."""
    given = {"tokens": fixed("tokens"), "tokens_per_word": values["tokens_per_word"], **more}
    return LAWS.get("massiveds").predict(given).values[figure].value


def build(values: Values) -> float:
    """FLOP of building over those of training the reader."""
    reader = fixed("reader")
    return float(tier(values, "build_flop") / (6.0 * reader["parameters"] * reader["trained"]))


def search(values: Values) -> float:
    """Seconds of a search in memory over those from drives."""
    kept = fixed("storage")
    rates = (kept["devices"] * kept["host_bytes_per_s"], kept["devices"] * kept["flash_bytes_per_s"])
    memory, flash = (tier(values, "search_s", bytes_per_s=rate) for rate in rates)
    return memory / flash


def prompt(values: Values) -> float:
    """Seconds of a prompt with passages over those of the question alone."""
    question, model, device = fixed("question"), fixed("model"), fixed("device")
    passages = tier(values, "prompt_tokens", documents=fixed("documents"))
    return prompt_s(model, device, question + passages) / prompt_s(model, device, question)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "build": build,
        "index": lambda v: tier(v, "index_bytes") / 1e12,
        "hold": lambda v: float(math.ceil(tier(v, "index_bytes") / 2e12)),
        "search": search,
        "prompt": prompt,
    }
