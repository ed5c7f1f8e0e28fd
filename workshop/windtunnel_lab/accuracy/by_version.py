"""Writes docs/accuracy/by-version.md: the error of each version of the changelog, by family of measured rows.

python -m windtunnel_lab.accuracy.by_version > docs/accuracy/by-version.md
python -m windtunnel_lab.accuracy.by_version --keep 0.2.0     keep today's medians under a version
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

from windtunnel_lab.accuracy.expected_error import expected_error
from windtunnel_lab.accuracy.out_of_sample import out_of_sample
from windtunnel_lab.accuracy.tables import markdown

VERSIONS = Path(__file__).parent / "text" / "versions.yaml"
Medians = Mapping[str, tuple[int, float]]
"""Family → configurations, and the median error of their step time in percent."""


def medians() -> Medians:
    """Of the residuals that ship: each configuration without itself in the fits."""
    errors: dict[str, list[float]] = defaultdict(list)
    for one in out_of_sample():
        errors[one.residual.family].append(100.0 * abs(one.error))
    return {name: (len(of), round(float(np.median(of)), 1)) for name, of in sorted(errors.items())}


def kept() -> dict[str, Medians]:
    """Version of the changelog → its medians, the oldest first."""
    data = yaml.safe_load(VERSIONS.read_text("utf-8"))
    return {version: {name: (n, e) for name, (n, e) in of.items()} for version, of in data.items()}


def page() -> str:
    """A line a family, a column a version."""
    versions = {**kept(), "unreleased": medians()}
    families = sorted({name for of in versions.values() for name in of})
    lines = [[name, *(_cell(of.get(name)) for of in versions.values())] for name in families]
    lines.append(["**median family**", *(f"{np.median([e for _, e in of.values()]):.1f}" for of in versions.values())])
    head = ["family of rows", *versions]
    return f"# Errors by version\n\n{expected_error()}\n\n{_TEXT}\n\n{markdown(head, lines, 1)}\n"


_TEXT = """\
Medians of the error of step time in percent for each version of the changelog, with the number of configurations in
brackets. Every configuration is left out of the fits that predict it. A family is a site with its software; its rows
may be read better from one version to the next, and there may be more of them. Written by
`python -m windtunnel_lab.accuracy.by_version`."""


def _cell(found: tuple[int, float] | None) -> str:
    return "" if found is None else f"{found[1]:.1f} ({found[0]:,})"


def main(arguments: Sequence[str]) -> None:
    """Print the page, or keep today's medians."""
    if arguments[:1] == ["--keep"]:
        data = {version: {name: list(of) for name, of in own.items()} for version, own in kept().items()}
        data[arguments[1]] = {name: list(of) for name, of in medians().items()}
        comment = "".join(line + "\n" for line in VERSIONS.read_text("utf-8").splitlines() if line.startswith("#"))
        VERSIONS.write_text(comment + yaml.safe_dump(data, sort_keys=False, default_flow_style=None), "utf-8")
        return
    print(page(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
