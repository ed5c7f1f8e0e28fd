"""Measurements on disk, one JSON line each, so that an interrupted calibration goes on where it stopped.

Each line holds its checksum, so that a damaged one is measured again; lines of earlier versions have none.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from windtunnel.calibration.cases import Case
from windtunnel.errors import BadInput, Problem
from windtunnel.files.checksums import sealed, unsealed
from windtunnel.files.reading import read_text
from windtunnel.files.writing import not_written, write_text


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
        lines = [line for line in read_text(path).splitlines() if line.strip()]
        whole, same = [], False
        for text in lines:
            try:
                line = unsealed(text)
                if "conditions" in line:
                    same = line["conditions"] == conditions
                else:
                    one = Measurement(Case(**line.pop("case")), **line)
                    if same:
                        store.found[one.case.key] = one
                whole.append(text)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                if not whole:
                    raise BadInput(Problem("", f"is no file of measurements: {error}", file=str(path))) from None
        if len(whole) < len(lines):
            cut = len(lines) - len(whole)
            sys.stderr.write(f"note: {cut} of {len(lines)} lines of {path} are damaged or cut short: measured again\n")
            write_text(path, "".join(f"{line}\n" for line in whole))
        store._begun = same
        return store

    def add(self, one: Measurement) -> None:
        """Keep a measurement, on disk at once."""
        self.found[one.case.key] = one
        if self.path is None:
            return
        lines = [] if self._begun else [{"conditions": self.conditions}]
        try:
            with self.path.open("ab") as stream:
                stream.write(b"".join(sealed(line, indent=None) + b"\n" for line in (*lines, asdict(one))))
        except OSError as error:
            raise not_written(self.path, "", error) from None
        self._begun = True

    def of(self, kind: str) -> list[Measurement]:
        """Measurements of a kind."""
        return [m for m in self.found.values() if m.case.kind == kind]
