"""Documents of different lengths in a training result, in words."""

from __future__ import annotations

from typing import Any

from windtunnel.quantities import count, percent


def document_lines(lengths: dict[str, Any]) -> list[tuple[str, str]]:
    """(what, figure) of `TrainingResult.lengths`; empty where all sequences are alike.

    Args:
        lengths: as the result has it.
    """
    if not lengths:
        return []
    shares = lengths["ranks_of_a_sequence"]
    ranks = ", ".join(f"{width}: {percent(share)}" for width, share in shares.items())
    lines = [
        (
            "tokens of documents",
            f"{count(lengths['tokens'])}; padding is {percent(lengths['padding'])} of what is computed",
        ),
        ("documents that a token sees", f"{count(lengths['mean_squared_over_mean'])} tokens long on average"),
        ("slowest replica", f"{lengths['slowest_over_mean']:.3g} x the mean of all"),
        (
            f"steps of {lengths['batches']} drawn batches",
            f"{lengths['step_low']:.3g} to {lengths['step_high']:.3g} x this one",
        ),
        ("ranks that share a document", f"{ranks} of tokens" if len(shares) > 1 else next(iter(shares))),
    ]
    if lengths["lanes_that_meet"] > 1:
        lines.append(("waiting", f"{lengths['lanes_that_meet']} meet in every micro-batch"))
    return lines
