"""Cost of test-time compute in equivalent FLOP: FLOP plus bytes read from the KV cache times the device's intensity.

Source: Sadhukhan et al. 2025, Kinetics (arXiv 2506.05333), as in the authors' repository (Infini-AI-Lab/Kinetics,
cost_model/utils.py, commit af7fa575): 562.5 FLOP a byte (B200); the prompt's cache is shared by the
samples of a problem, weights are read for large batches and left out. Sparse attention reads at most `budget` tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.laws import LAWS, Law, Quantity, Question, Values

B200_FLOP_PER_BYTE = 562.5


def kv_tokens(context: float, generated: float, budget: float = 0.0) -> tuple[float, float]:
    """Cached tokens that a sample's steps read of the prompt and of what it wrote, summed over the steps.

    Args:
        context: tokens of the prompt.
        generated: tokens written.
        budget: most tokens that a step reads; 0: all of them.
    """
    if not budget:
        return context * generated, generated * generated / 2.0
    growing = min(max(budget - context, 0.0), generated)
    return 0.0, budget * generated - growing * growing / 2.0


def eflop(
    parameters: float,
    context: float,
    generated: float,
    samples: float,
    kv_bytes_per_token: float,
    attention_flop_per_token: float,
    flop_per_byte: float = B200_FLOP_PER_BYTE,
    budget: float = 0.0,
) -> tuple[float, float]:
    """FLOP and bytes-as-FLOP of so many samples for one problem.

    Args:
        parameters: of the model.
        context: tokens of the prompt.
        generated: tokens that each sample writes.
        samples: samples of the problem.
        kv_bytes_per_token: of the cache, all layers.
        attention_flop_per_token: of one query against one cached token, all layers and heads.
        flop_per_byte: intensity of the device.
        budget: most cached tokens that a step reads; 0: all.
    """
    shared, own = kv_tokens(context, generated, budget)
    flop = samples * (2.0 * parameters * generated + attention_flop_per_token * (shared + own))
    read = kv_bytes_per_token * (shared + samples * own)
    return flop, read * flop_per_byte


def _cost(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    flop, read = eflop(**v)
    return {"eflop": flop + read, "flop": flop, "memory_share": read / (flop + read)}


LAWS.add(
    "kinetics",
    Law(
        id="kinetics",
        title="Kinetics: equivalent FLOP of samples and long answers",
        source="Sadhukhan et al. 2025, Kinetics, cost model of the repository",
        link="https://arxiv.org/abs/2506.05333",
        confirmed="form and 562.5 FLOP a byte in the authors' repository",
        valid="batches so large that weights are read for many; Qwen3 of 0.6B to 32B",
        grade="exact",
        quantities={
            "parameters": Quantity(doc="model size", unit="parameters", low=0.6e9, high=33e9, least=1.0),
            "context": Quantity(doc="tokens of the prompt", unit="tokens"),
            "generated": Quantity(doc="tokens that a sample writes", unit="tokens"),
            "samples": Quantity(doc="samples a problem", default=1.0, least=1.0, whole=True),
            "kv_bytes_per_token": Quantity(doc="bytes of the cache a token, all layers", unit="B"),
            "attention_flop_per_token": Quantity(doc="FLOP of a query against a cached token, all layers", unit="FLOP"),
            "flop_per_byte": Quantity(
                doc="FLOP that the device computes while it reads a byte", default=B200_FLOP_PER_BYTE
            ),
            "budget": Quantity(doc="most cached tokens that a step reads; 0: all", unit="tokens", default=0.0),
        },
        questions=(
            Question(
                id="cost",
                summary="Equivalent FLOP of the samples of a problem, and the share that is reading the cache.",
                needs=("parameters", "context", "generated", "kv_bytes_per_token", "attention_flop_per_token"),
                may=("samples", "flop_per_byte", "budget"),
                units={"eflop": "FLOP", "flop": "FLOP", "memory_share": "share"},
                answer=_cost,
            ),
        ),
    ),
)
