"""Latency of three reasoning models on a Jetson AGX Orin: decode, parallel samples, the front."""

from __future__ import annotations

from itertools import pairwise

from windtunnel import catalog
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import answer_s, capacity, decode_s, prompt_s
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def latency(model: str, written: float, sequences: float = 1.0) -> float:
    """Seconds of answers of so many tokens."""
    return answer_s(model, fixed("device"), fixed("prompt"), written, sequences)


def over_bytes() -> float:
    """Least ratio of a decode step to reading the weights once."""
    rate = catalog.device(fixed("device")).memory_bytes_per_s

    def ratio(model: str) -> float:
        return decode_s(model, fixed("device"), 1.0, 0.0) / (capacity(model, fixed("device")).weights_bytes / rate)

    return min(map(ratio, fixed("models")))


def decoding() -> float:
    """Least share of decode in the latency."""
    read = fixed("prompt")
    return min(1.0 - prompt_s(model, fixed("device"), read) / latency(model, 1024) for model in fixed("models"))


def order() -> float:
    """Least ratio of a model's latency to that of the next smaller."""
    return min(after / before for before, after in pairwise(latency(model, 1024) for model in fixed("models")))


def parallel() -> float:
    """Largest ratio of parallel samples to one."""
    return max(latency(m, 1024, fixed("parallel")) / latency(m, 1024) for m in fixed("models"))


def front(values: Values) -> float:
    """Models on the front of accuracy over latency; 0 unless the largest ends it."""
    points = [
        (latency(model, n), accuracy * n / (n + values["half"]), at)
        for at, (model, accuracy) in enumerate(zip(fixed("models"), fixed("accuracy"), strict=True))
        for n in fixed("lengths")
    ]
    kept: list[tuple[float, float, int]] = []
    for point in sorted(points):
        if not kept or point[1] > kept[-1][1]:
            kept.append(point)
    return float(len({at for _, _, at in kept})) if kept[-1][2] == len(fixed("models")) - 1 else 0.0


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "bytes": lambda _: over_bytes(),
        "decode": lambda _: decoding(),
        "order": lambda _: order(),
        "parallel": lambda _: parallel(),
        "front": front,
    }
