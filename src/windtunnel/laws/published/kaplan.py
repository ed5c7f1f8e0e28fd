"""Loss of language models over parameters, tokens and compute, each a power (Kaplan et al.).

Source: Kaplan et al. 2020 (arXiv 2001.08361), equations 1.1 to 1.5, tables 2, 5 and 6. Parameters are those without
embeddings; compute in PF-days (8.64e19 FLOP) of the best batch size. Later laws put more of a budget into tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.laws import LAWS, Coefficient, Law, Quantity, Question, Values

PF_DAY_FLOP = 8.64e19


def _loss(v: Values, c: Mapping[str, float]) -> dict[str, float]:
    """Equation 1.5."""
    size = (c["N_c"] / v["parameters"]) ** (c["alpha_N"] / c["alpha_D"])
    return {"loss": float((size + c["D_c"] / v["tokens"]) ** c["alpha_D"])}


def _optimum(v: Values, c: Mapping[str, float]) -> dict[str, float]:
    """Tables 5 and 6: N = N_e·C^p, L = (C_c/C)^α at the best allocation; tokens follow from C = 6ND."""
    days = v["flop"] / PF_DAY_FLOP
    parameters = c["N_e"] * days ** c["p_N"]
    tokens = v["flop"] / 6.0 / parameters
    return {"parameters": parameters, "tokens": tokens, "loss": (c["C_c"] / days) ** c["alpha_C"]}


LAWS.add(
    "kaplan",
    Law(
        id="kaplan",
        title="Kaplan: loss of language models over parameters, tokens and compute",
        source="Kaplan et al. 2020, Scaling Laws for Neural Language Models, equation 1.5, tables 2, 5 and 6",
        link="https://arxiv.org/abs/2001.08361",
        confirmed="coefficients of the loss in four public repositories; N_e = 1.3e9 and p_N = 0.73 recalled",
        valid="768 to 1.5B parameters without embeddings, 22M to 23B tokens of WebText2, up to some PF-days",
        quantities={
            "parameters": Quantity(
                doc="model size without embeddings", unit="parameters", low=768, high=1.5e9, least=1
            ),
            "tokens": Quantity(doc="distinct training tokens", unit="tokens", low=22e6, high=23e9, least=1),
            "flop": Quantity(
                doc="training budget", unit="FLOP", low=1e-6 * PF_DAY_FLOP, high=10 * PF_DAY_FLOP, least=1
            ),
        },
        questions=(
            Question(
                id="loss",
                summary="Loss of a model of so many parameters trained on so many tokens until it stops improving.",
                needs=("parameters", "tokens"),
                units={"loss": "nats/token"},
                answer=_loss,
            ),
            Question(
                id="optimum",
                summary="Parameters and tokens of the least loss at a budget of training FLOP.",
                needs=("flop",),
                units={"parameters": "parameters", "tokens": "tokens", "loss": "nats/token"},
                answer=_optimum,
            ),
        ),
        tables={
            "": {
                "N_c": Coefficient(value=6.4e13, rounding=0.05e13),
                "D_c": Coefficient(value=1.8e13, rounding=0.05e13),
                "alpha_N": Coefficient(value=0.076, rounding=0.0005),
                "alpha_D": Coefficient(value=0.103, rounding=0.0005),
                "C_c": Coefficient(value=3.1e8, rounding=0.05e8),
                "alpha_C": Coefficient(value=0.050, rounding=0.0005),
                "N_e": Coefficient(value=1.3e9, rounding=0.05e9),
                "p_N": Coefficient(value=0.73, rounding=0.005),
            }
        },
        notes=("no errors are printed: the interval is that of rounding alone",),
    ),
)
