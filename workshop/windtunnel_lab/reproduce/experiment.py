"""One paper as an experiment: its settings, and how its claims are run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, results
from windtunnel_lab.reproduce.settings import Values, load


@dataclass(frozen=True, slots=True)
class Experiment:
    """The experiment of one paper's folder.

    Its module holds only what is special about the paper: `measures() -> dict[str, Measure]`, claim → how it is
    measured, in the order of the table; or, where claims are no measures, `run() -> list[ClaimResult]`.
    """

    module: str
    """Name of the module next to `claims.yaml`."""
    prefix: str = ""
    """First part of the claims' ids; absent: the folder's name."""

    @property
    def id(self) -> str:
        """Folder of the paper."""
        return self.module.split(".")[-2]

    @property
    def setting(self) -> Values:
        """Settings and claims, as `claims.yaml` states them."""
        return load(self.module.rpartition(".")[0])

    def fixed(self, name: str) -> Any:
        """One value that the paper gives or a rule fixes."""
        return self.setting["fixed"][name]["value"]

    def measures(self) -> dict[str, Measure]:
        """Claim → how it is measured."""
        found: dict[str, Measure] = sys.modules[self.module].measures()
        return found

    def run(self) -> list[ClaimResult]:
        """All claims; misses are returned like hits."""
        own = getattr(sys.modules[self.module], "run", None)
        if own is not None:
            claims: list[ClaimResult] = own()
            return claims
        return results(self.setting, self.prefix or self.id, self.measures())
