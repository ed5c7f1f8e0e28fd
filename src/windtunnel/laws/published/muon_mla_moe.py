"""Muon next to AdamW: FLOP to a loss, FLOP of a step's Newton–Schulz products, bytes of optimizer state.

Source: Mehta et al. 2025 (arXiv 2509.24406): a target loss
with 48 to 52 % of AdamW's training for decoders of 30M to 200M parameters. A Newton–Schulz iteration on an m × n matrix
(m ≤ n) is three products, X·Xᵀ, its square and their product with X: 2·m·n·m + 2·m³ + 2·m·m·n FLOP.
"""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.laws import LAWS, Coefficient, Law, Quantity, Question, Values
from windtunnel.systems import card


def newton_schulz_flop(rows: float, columns: float, iterations: float = 5.0) -> float:
    """FLOP of orthogonalising one matrix."""
    m, n = min(rows, columns), max(rows, columns)
    return iterations * (4.0 * m * m * n + 2.0 * m**3)


def _step(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    extra = newton_schulz_flop(v["rows"], v["columns"], v["iterations"])
    elements = v["rows"] * v["columns"]
    trained = 6.0 * elements * v["batch_tokens"]
    return {
        "step_flop": extra,
        "share_of_training": extra / trained,
        "state_bytes": 4.0 * elements,
        "adamw_state_bytes": 8.0 * elements,
    }


LAWS.add(
    "muon-mla-moe",
    Law(
        id="muon-mla-moe",
        title="Muon: FLOP to a loss and of a step, compared with AdamW",
        source=f"Mehta et al. 2025, {card('muon-mla-moe').title}, abstract",
        link="https://arxiv.org/abs/2509.24406",
        confirmed="48 to 52 % on four public pages; FLOP of a step are counted",
        valid="decoders of 30M to 200M parameters",
        quantities={
            "parameters": Quantity(doc="model size", unit="parameters", low=30e6, high=200e6, least=1),
            "adamw_flop": Quantity(doc="FLOP that AdamW needs to the loss", unit="FLOP", least=1.0),
            "rows": Quantity(doc="rows of a matrix", least=1),
            "columns": Quantity(doc="columns of a matrix", least=1),
            "batch_tokens": Quantity(doc="tokens of a step", unit="tokens", least=1),
            "iterations": Quantity(doc="Newton–Schulz iterations", default=5.0, least=1, whole=True),
        },
        questions=(
            Question(
                id="flop",
                summary="FLOP to the same loss as AdamW.",
                needs=("parameters", "adamw_flop"),
                units={"flop": "FLOP"},
                answer=lambda v, c: {"flop": c["factor"] * v["adamw_flop"]},
            ),
            Question(
                id="step",
                summary="FLOP and optimizer bytes that a matrix adds to a step, besides its training FLOP.",
                needs=("rows", "columns", "batch_tokens"),
                may=("iterations",),
                units={"step_flop": "FLOP", "share_of_training": "share", "state_bytes": "B", "adamw_state_bytes": "B"},
                answer=_step,
            ),
        ),
        tables={"": {"factor": Coefficient(value=0.50, rounding=0.02)}},
        notes=("a printed range, not an error: the interval is the range",),
    ),
)
