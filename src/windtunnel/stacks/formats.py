"""In which number formats each release of a framework trains."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.number_formats import MATRIX_FORMAT, UNITS_OF_THEIR_OWN
from windtunnel.stacks.releases import NEWEST, begins, release_date
from windtunnel.stacks.stack_files import lineage, stack_file


def narrow_formats(framework: str) -> dict[str, dict[str, Any]] | None:
    """Precisions below 16 bits that a framework trains in, with `since` and `source`; None where they are not known."""
    return next((stack_file(name)["formats"] for name in lineage(framework) if "formats" in stack_file(name)), None)


def trains(framework: str, precision: str, version: str = "") -> bool:
    """Whether a release of a framework trains in a precision.

    Args:
        framework: software generation.
        precision: of training.
        version: release; what cannot be dated counts as the newest.
    """
    known = narrow_formats(framework)
    if known is None or MATRIX_FORMAT[precision] not in UNITS_OF_THEIR_OWN:
        return True
    if precision not in known:
        return False
    since = known[precision].get("since")
    return since is None or begins(since) <= (release_date(framework, version) or NEWEST)


def trained_in(framework: str, version: str = "") -> list[str]:
    """Every precision that a release of a framework trains in."""
    return [precision for precision in MATRIX_FORMAT if trains(framework, precision, version)]
