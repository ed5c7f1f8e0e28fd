"""New parameters of blocks over the batch, and what they add to the bytes and FLOP of a decode step."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import capacity, deployed, token_flop
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def parameters(name: str) -> float:
    """Of a model, its head included."""
    model, device = fixed("models")[name], fixed("device")
    spec = deployed(model, device).model
    own_head = spec.vocab_size * spec.hidden_size if spec.tie_word_embeddings and fixed("untied") else 0
    return capacity(model, device).weights_bytes / 2.0 + own_head


def layers_and_width(name: str) -> tuple[int, int]:
    """Layers and hidden size."""
    spec = deployed(fixed("models")[name], fixed("device")).model
    return spec.num_hidden_layers, spec.hidden_size


def width() -> float:
    """Width of a block that gives the smallest model the upper published share."""
    layers, hidden = layers_and_width("1.5b")
    return float((fixed("upper") * parameters("1.5b") / layers - hidden) / (4.0 * hidden))


def added(name: str) -> float:
    """New parameters of a model: four matrices and a norm a layer."""
    layers, hidden = layers_and_width(name)
    return layers * (4.0 * hidden * width() + hidden)


def step(values: Values) -> float:
    """Largest increase of bytes or FLOP of a decode step, %."""
    sequences, context, found = values["sequences"], fixed("context"), []
    for name, model in fixed("models").items():
        held = capacity(model, fixed("device"))
        linear, attention = token_flop(model, fixed("device"))
        read = held.weights_bytes + sequences * context * held.bytes_per_token
        flop = sequences * (linear + context * attention)
        layers, _ = layers_and_width(name)
        among = 4.0 * layers * width() * sequences  # scores and sums over the sequences, a token
        found += [2.0 * added(name) / read, sequences * (2.0 * added(name) + among) / flop]
    return float(100.0 * max(found))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "parameters/7b": lambda _: 100.0 * added("7b") / parameters("7b"),
        "parameters/8b": lambda _: 100.0 * added("8b") / parameters("8b"),
        "step": step,
    }
