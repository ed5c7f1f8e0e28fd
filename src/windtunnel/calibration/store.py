"""Measurements on disk, one JSON line each, so that an interrupted calibration goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from windtunnel.calibration.cases import Case
from windtunnel.errors import BadInput, Problem


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds of one case."""

    case: Case
    median_s: float
    low_s: float
    """Quartiles."""
    high_s: float
    runs: int

    @property
    def noise(self) -> float:
        """Distance of the quartiles over the median."""
        return (self.high_s - self.low_s) / self.median_s if self.median_s else 0.0


@dataclass(slots=True)
class Store:
    """A file of measurements made under one set of conditions."""

    path: Path | None
    conditions: dict[str, Any]
    found: dict[str, Measurement] = field(default_factory=dict)
    _begun: bool = False

    @classmethod
    def open(cls, path: Path | None, conditions: dict[str, Any]) -> Store:
        """Measurements that were made before under the same conditions; others are left out.

        Raises:
            BadInput: a file that is no store.
        """
        store = cls(path, conditions)
        if path is None or not path.exists():
            return store
        try:
            text = path.read_text("utf-8")
            whole, _, cut = text.rpartition("\n")
            if cut and whole:  # a line that an interruption cut short is measured again
                path.write_text(f"{whole}\n", encoding="utf-8")
                text = whole
            lines = [json.loads(line) for line in text.splitlines() if line.strip()]
            same = False
            for line in lines:
                if "conditions" in line:
                    same = line["conditions"] == conditions
                elif same:
                    one = Measurement(Case(**line.pop("case")), **line)
                    store.found[one.case.key] = one
            store._begun = same
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadInput(Problem("", f"is no file of measurements: {error}", file=str(path))) from error
        return store

    def add(self, one: Measurement) -> None:
        """Keep a measurement, on disk at once."""
        self.found[one.case.key] = one
        if self.path is None:
            return
        with self.path.open("a", encoding="utf-8") as stream:
            if not self._begun:
                stream.write(json.dumps({"conditions": self.conditions}) + "\n")
                self._begun = True
            stream.write(json.dumps(asdict(one)) + "\n")

    def of(self, kind: str) -> list[Measurement]:
        """Measurements of a kind."""
        return [m for m in self.found.values() if m.case.kind == kind]
