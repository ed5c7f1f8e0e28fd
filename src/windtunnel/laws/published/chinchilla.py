"""Compute-optimal training of language models, L = E + A/N^α + B/D^β (Chinchilla).

Source: Hoffmann et al. 2022 (arXiv 2203.15556), equation 10 (approach 3), with the digits of its TeX source; over 400
runs of 70 million to 16 billion parameters on 5 to 500 billion tokens. Budgets up to that of Chinchilla itself
(5.76e23 FLOP) were predicted and then trained.
"""

from __future__ import annotations

from windtunnel.laws import LAWS, Coefficient, Law
from windtunnel.laws.power_sum import LOSS, OPTIMUM, TOKENS, pivoted, quantities

TABLE = {
    "E": Coefficient(value=1.6934, error=0.03),
    "A": Coefficient(value=406.4),
    "B": Coefficient(value=410.7),
    "alpha": Coefficient(value=0.3392, error=0.02),
    "beta": Coefficient(value=0.2849, error=0.02),
}

LAWS.add(
    "chinchilla",
    Law(
        id="chinchilla",
        title="Chinchilla: loss of language models over parameters and tokens",
        source="Hoffmann et al. 2022, Training Compute-Optimal Large Language Models, equation 10 (approach 3)",
        link="https://arxiv.org/abs/2203.15556",
        confirmed="printed digits on three public pages, those of the TeX source in two repositories",
        valid="runs of 70M to 16B parameters on 5B to 500B tokens; Chinchilla itself at 5.76e23 FLOP",
        quantities=quantities((70e6, 16e9), (5e9, 500e9), (6e18, 5.76e23)),
        questions=(LOSS, OPTIMUM, TOKENS),
        tables={"": TABLE},
        moved=pivoted(1e9, 50e9),
        notes=(
            "errors are those of the re-fit (chinchilla-refit); the paper's own interval is too narrow for 400 runs",
            "approach 3 gives fewer parameters than its own approaches 1 and 2: 40B against 67B at 5.76e23 FLOP",
        ),
    ),
)
