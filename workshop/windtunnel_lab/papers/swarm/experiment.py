"""The rate at which a stage that sends activations computes most of the time."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, least_fall
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def needed_mbit(hidden: int, values: Values) -> float:
    """Mb/s at which a stage computes the paper's share of the time.

    A stage computes 6·12·h² operations a weight and token over its layers (forward and backward), and sends and
    receives activations and their gradients of every token, each way while others are computed.
    """
    flop = 6 * 12 * hidden**2 * fixed("layers") * fixed("seq_len")
    compute_s = flop / (values["tflops"] * 1e12)
    bits = 2 * fixed("bits") * hidden * fixed("seq_len")
    return float(fixed("share") * bits / compute_s / 1e6)


def square_cube(values: Values) -> float:
    """Smallest ratio of a needed rate to that of the next larger model."""
    return least_fall([needed_mbit(hidden, values) for hidden in fixed("sizes")])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "rate": lambda v: needed_mbit(fixed("hidden"), v),
        "square_cube": square_cube,
    }
