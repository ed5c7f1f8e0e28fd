"""How long the documents of a training batch are, and how they become rows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.lengths import Lengths


class DocumentLengths(Lengths):
    """Documents of a training batch: attention stays inside each. Rows have `seq_len` tokens, longer documents are cut.

    Batches are drawn; the step is that of the drawn batch whose time is nearest the mean of all.
    """

    packing: Literal["cut", "best_fit", "padded"] = "cut"
    """How documents become rows: end to end and cut where a row ends; whole ones, each into the fullest row that has
    room (the rest of a row is padding, which is computed); or one a row, padded."""
    order: Literal["drawn", "by_work"] = "drawn"
    """Which rows share a micro-batch: as they come, or rows of like attention work on the same micro-batch of every
    replica."""
    batches: int = Field(default=8, gt=0, le=1024)
    """Batches drawn."""
    seed: int = 0
    """Seed of the lengths that are drawn."""


def refuse_lengths(lengths: DocumentLengths | None, what: str) -> None:
    """Say that something does not read documents of unlike length.

    Raises:
        BadInput: there are some.
    """
    if lengths is not None:
        rule = f"{what} does not read them yet; `train` and `fit` on devices that are alike do"
        raise BadInput(Problem("training.lengths", rule))
