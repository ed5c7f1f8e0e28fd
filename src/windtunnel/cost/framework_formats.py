"""In which number formats each release of a framework trains: `catalog/training_frameworks/trained_formats.yaml`."""

from __future__ import annotations

from functools import cache
from typing import Any

from windtunnel.cost.coefficient_files import lineage
from windtunnel.cost.framework_releases import NEWEST, begins, release_date
from windtunnel.data_files import read_yaml
from windtunnel.specs.number_formats import MATRIX_FORMAT, UNITS_OF_THEIR_OWN


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    """Framework → format → `since` and `source`, as in the file."""
    return dict(read_yaml("catalog/training_frameworks/trained_formats.yaml"))


def narrow_formats(framework: str) -> dict[str, dict[str, Any]] | None:
    """Precisions below 16 bits that a framework trains in, with `since` and `source`; None where they are not known."""
    return next((_table()[name] for name in lineage(framework) if name in _table()), None)


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
