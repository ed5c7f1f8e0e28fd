"""Latency of two small models that talk by text or by projected caches."""

from __future__ import annotations

from windtunnel import catalog
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import answer_s, decode_s, deployed, prompt_s
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "cache-to-cache")
fixed = EXPERIMENT.fixed


def writes_s(model: str, read: float, written: float) -> float:
    """Seconds of writing so many tokens after a prompt that is read."""
    return written * decode_s(model, fixed("device"), 1.0, read + written / 2.0)


def text_s(values: Values) -> float:
    """The sharer writes a message, the receiver reads prompt and message and answers."""
    prompt, message, answer = (float(values[name]) for name in ("prompt", "message", "answer"))
    first = answer_s(fixed("sharer"), fixed("device"), prompt, message)
    return first + answer_s(fixed("receiver"), fixed("device"), prompt + message, answer)


def projector_s(values: Values) -> float:
    """Keys and values of every receiving layer through their networks, at the rates of the data sheet."""
    sharer, receiver = (deployed(fixed(name), fixed("device")).model for name in ("sharer", "receiver"))
    theirs, own = (m.kv_heads * m.attention_head_dim for m in (sharer, receiver))
    hidden, layers = fixed("projector")["hidden"], fixed("projector")["layers"]
    weights = 2.0 * receiver.num_hidden_layers * ((theirs + own) * hidden + (layers - 2) * hidden**2 + hidden * own)
    device = catalog.device(fixed("device"))
    rates = {str(k): v for k, v in device.peak_flop_per_s.items()}
    return float(max(2.0 * weights * values["prompt"] / rates["bf16"], 2.0 * weights / device.memory_bytes_per_s))


def prompts_s(values: Values) -> float:
    """Both models read the prompt."""
    return sum(prompt_s(fixed(name), fixed("device"), values["prompt"]) for name in ("sharer", "receiver"))


def caches_s(values: Values) -> float:
    """Both read the prompt, caches are projected, the receiver answers."""
    answer = writes_s(fixed("receiver"), values["prompt"], values["answer"])
    return prompts_s(values) + projector_s(values) + answer


def speed(values: Values) -> float:
    """Latency of text over that of caches."""
    return text_s(values) / caches_s(values)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "speed": speed,
        "projector": lambda v: projector_s(v) / prompts_s(v),
        "message": lambda v: speed(v | {"message": 256}) / speed(v | {"message": 32}),
    }
