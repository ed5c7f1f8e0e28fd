"""Running the claims of published systems: results, figures, tables and pages of the experiments in `papers/`.

A paper is found by its folder: `papers/<id>/experiment.py` holds its `EXPERIMENT` and `measures()`, and may define
`plot(results) -> Chart | Panels`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from types import ModuleType
from typing import Any

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel_lab.reproduce.settings import load

PAPERS = "windtunnel_lab.papers"
"""Package with one folder a paper; experiments are found there by name, as entries of a registry are."""
ACTS_ON = ("training", "serving", "run", "cluster", "learning", "programs", "laws")
"""Workloads that a paper's `claims.yaml` may name as what it acts on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """One published figure next to the simulated one.

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
    band: str = ""
    """What counts as within, in figures of the claim; empty where the claim's text says it."""
    tier: str = ""
    """A or B where the research catalogue keeps the claim, else empty."""
    holds: str = ""
    """Why being within says little: by construction, or only since a change after a first run."""
    paper: str = ""
    """Folder of its paper; `run_paper` fills it in."""

    @property
    def missing(self) -> str:
        """The mechanism or setting behind a miss; empty where it is within."""
        return next((x.removeprefix("missing: ") for x in self.assumptions if x.startswith("missing: ")), "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return asdict(self) | {"assumptions": list(self.assumptions)}


def list_papers() -> list[str]:
    """The ids of all papers with an experiment, sorted."""
    return sorted(
        module.name for module in pkgutil.iter_modules(importlib.import_module(PAPERS).__path__) if module.ispkg
    )


def folders(ids: Sequence[str] = (), acts_on: str | None = None) -> list[str]:
    """Folders of the named papers, each once, in the order named.

    Args:
        ids: folders, ids of the research catalogue (`pytorch-ddp`) or techniques; empty: all papers.
        acts_on: keep only papers whose setting states this workload, one of `ACTS_ON`; None keeps both.

    Raises:
        BadInput: unknown papers (all of them are listed), an unknown workload, or no paper left.
    """
    chosen = _named(ids) if ids else list_papers()
    if acts_on is None:
        return chosen
    if acts_on not in ACTS_ON:
        few = f"must be one of {', '.join(ACTS_ON)}"
        raise BadInput([Problem("acts_on", few, acts_on, nearest=nearest_name(acts_on, ACTS_ON))])
    kept = [one for one in chosen if load(f"{PAPERS}.{one}")["acts_on"] == acts_on]
    if not kept:
        raise BadInput([Problem("acts_on", f"none of the named papers acts on {acts_on}", acts_on)])
    return kept


def _named(ids: Sequence[str]) -> list[str]:
    """Folders of the named papers, as `folders` returns them; refuses names that are not known."""
    from windtunnel.techniques import REGISTRY

    known, out, wrong = list_papers(), list[str](), list[Problem]()
    for one in ids:
        folder = one.replace("-", "_").replace(".", "_")
        if folder not in known and one.replace("_", "-") in REGISTRY:
            technique = REGISTRY.get(one.replace("_", "-"))
            if not technique.experiment:
                wrong.append(Problem("paper", f"has no experiment: {technique.missing}", one))
                continue
            folder = technique.experiment
        if folder in known:
            out.append(folder)
        else:
            few = f"unknown paper among {len(known)} (`windtunnel reproduce --list` shows them)"
            wrong.append(Problem("paper", few, one, nearest=nearest_name(folder, known)))
    if wrong:
        raise BadInput(wrong)
    return list(dict.fromkeys(out))


def experiment_of(folder: str) -> ModuleType:
    """The module that runs a paper's claims."""
    return importlib.import_module(f"{PAPERS}.{folder}.experiment")


def run_paper(paper_id: str) -> list[ClaimResult]:
    """Runs one paper's experiment; misses are returned like hits.

    Raises:
        BadInput: no paper has this id.
    """
    from windtunnel.serving.iteration.pricing_cache import reuse_prices

    (folder,) = folders([paper_id])
    with reuse_prices():
        return [replace(one, paper=folder) for one in experiment_of(folder).EXPERIMENT.run()]


def reproduce(ids: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Claims of the named papers as plain data, one paper after the other; without names, of all papers.

    Args:
        ids: as `folders` takes them.

    Raises:
        BadInput: a paper is not known; nothing has run then.
    """
    return [claim.to_dict() for one in folders(ids) for claim in run_paper(one)]
