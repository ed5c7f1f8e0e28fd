"""Published systems as experiments: one folder a paper with its settings, claims and a `run()`.

A paper is found by its folder: `papers/<id>/experiment.py` defines `TITLE` and `run() -> list[ClaimResult]`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from windtunnel.errors import BadInput, Problem, nearest_name


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """One published figure beside the simulated one.

    `low` and `high` span the simulated values over the range of settings that the paper leaves open; only the central
    value `simulated` decides `within`. Units are those of the claim's text.
    """

    id: str
    claim: str
    published: float
    simulated: float
    low: float
    high: float
    within: bool
    assumptions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return asdict(self) | {"assumptions": list(self.assumptions)}


def list_papers() -> list[str]:
    """The ids of all papers with an experiment, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def run_paper(paper_id: str) -> list[ClaimResult]:
    """Runs one paper's experiment; misses are returned like hits.

    Raises:
        BadInput: no paper has this id.
    """
    known = list_papers()
    paper_id = paper_id.replace("-", "_")
    if paper_id not in known:
        rule = f"unknown paper; known are {', '.join(known)}"
        raise BadInput(Problem("paper", rule, paper_id, nearest=nearest_name(paper_id, known)))
    experiment = importlib.import_module(f"{__name__}.{paper_id}.experiment")
    results: list[ClaimResult] = experiment.run()
    return results


def reproduce(ids: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Claims of the named papers as plain data; without names, of all papers.

    Args:
        ids: folder names, or technique ids that are spelt like one (`pytorch-ddp`).

    Raises:
        BadInput: a paper is not known; nothing has run then.
    """
    known = list_papers()
    wrong = [one for one in ids if one.replace("-", "_") not in known]
    if wrong:
        rule = f"unknown paper; known are {', '.join(known)}"
        raise BadInput([Problem("paper", rule, one, nearest=nearest_name(one, known)) for one in wrong])
    return [claim.to_dict() for one in ids or known for claim in run_paper(one)]
