"""Seconds and bytes of eight streams next to those of a larger model with the same loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.laws import LAWS
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import answer_s, capacity, deployed
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def model(place: int) -> dict[str, Any]:
    """One of the six published sizes."""
    return {
        "name": f"parscale-{place}",
        "hidden_size": fixed("hidden")[place],
        "num_hidden_layers": 36,
        "vocab_size": 151936,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "intermediate_size": fixed("mlp")[place],
        "attention_bias": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": 2048,
    }


def parameters(place: int) -> float:
    """Of a size, without embeddings."""
    hidden, wide = fixed("hidden")[place], fixed("mlp")[place]
    keys = hidden // 8
    layer = 2 * hidden * hidden + 2 * hidden * keys + hidden + 2 * keys + 3 * hidden * wide + 2 * hidden
    return float(36 * layer + hidden)


def seconds(place: int, batch: int, streams: int = 1) -> float:
    """Latency of an answer to each of a batch, each with so many streams, without the host's time for each sequence."""
    tokens, own, device = fixed("tokens"), model(place), fixed("device")
    prompt = tokens["input"] + (tokens["prefix"] if streams > 1 else 0)
    sequences, steps = batch * streams, tokens["output"] + 1
    host_s = steps * sequences * deployed(own, device).limits.per_sequence_s
    return float(answer_s(own, device, prompt, tokens["output"], sequences) - host_s)


def nbytes(place: int, batch: int, streams: int = 1) -> float:
    """Weights and caches, with what adds the streams up and the widest tensors of the prompt."""
    tokens, held, hidden = fixed("tokens"), capacity(model(place), fixed("device")), fixed("hidden")[place]
    prefix = tokens["prefix"] if streams > 1 else 0
    adding = 2.0 * (hidden + 1) * hidden * streams if streams > 1 else 0.0
    cached = batch * streams * (tokens["input"] + tokens["output"] + prefix) * held.bytes_per_token
    layer = 2.0 * batch * streams * (tokens["input"] + prefix) * (4 * hidden + 3 * fixed("mlp")[place])
    logits = 4.0 * batch * tokens["input"] * model(place)["vocab_size"]
    return float(held.weights_bytes + adding + cached + max(layer, logits))


def equal(values: Values, of: Any, batch: int) -> float:
    """A figure of the model that is as good as the streams, interpolated between the published sizes."""
    base, streams = fixed("base"), fixed("streams")
    given = {"data": values["data"], "parameters": parameters(base), "streams": streams}
    size = LAWS.get("parscale").predict(given).values["equivalent_parameters"].value
    places = range(len(fixed("hidden")))
    return float(np.interp(size, [parameters(p) for p in places], [of(p, batch) for p in places]))


def increase(values: Values, of: Any, batch: int = 1) -> float:
    """Increase of a figure by parameters over that by streams."""
    base = of(fixed("base"), batch)
    return float((equal(values, of, batch) - base) / (of(fixed("base"), batch, fixed("streams")) - base))


def ratio(values: Values, batch: int) -> float:
    """Latency of the larger model over that of the streams."""
    return equal(values, seconds, batch) / seconds(fixed("base"), batch, fixed("streams"))


def falls(values: Values) -> float:
    """Least fall of the ratio from batch to batch."""
    found = [ratio(values, batch) for batch in (1, 8, 64)]
    return min(found[0] / found[1], found[1] / found[2])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "latency": lambda v: increase(v, seconds),
        "memory": lambda v: increase(v, nbytes),
        "large-batch": lambda v: ratio(v, 64),
        "falls": falls,
    }
