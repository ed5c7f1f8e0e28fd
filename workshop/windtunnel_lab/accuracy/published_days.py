"""Published runs of weeks: how many days they took, and how many are predicted, through failures, saves and restarts.

`python -m windtunnel_lab.accuracy.published_days > docs/accuracy/runs.md` writes the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from windtunnel.runs.results import RunResult
from windtunnel.runs.simulate import simulate_run
from windtunnel.specs.run import RunSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.validation.rows.read_row import read
from windtunnel.validation.rows.row_files import SHIPPED, load_rows
from windtunnel_lab.accuracy.tables import markdown

_CASES = Path(__file__).parent / "text/published_days.yaml"
_WORDS = Path(__file__).parent / "text/runs.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDays:
    """One published run next to its prediction."""

    name: str
    days: float
    """Published."""
    result: RunResult
    case: dict[str, Any]
    """As `text/published_days.yaml` has it."""

    @property
    def error(self) -> float:
        """Predicted mean over published days, less 1."""
        return self.result.days["mean"] / self.days - 1.0

    @property
    def inside(self) -> bool:
        """Whether the 80 % interval holds the published days."""
        return self.result.interval["low"] <= self.days <= self.result.interval["high"]


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Name → settings and what was published."""
    data: dict[str, dict[str, Any]] = yaml.safe_load(_CASES.read_text("utf-8"))
    return data


def scenario_of(case: dict[str, Any]) -> Scenario | dict[str, Any]:
    """The scenario of a case: of a measured row with its run, or as it is stated."""
    if "scenario" in case:
        return {**case["scenario"], "run": case["run"]}
    row = next(row for row in load_rows(SHIPPED / "published-runs.json") if row["id"] == case["row"])
    found = read(row).scenario
    assert found is not None
    return found.model_copy(update={"run": RunSpec.model_validate(case["run"])})


@cache
def published_days(name: str) -> PublishedDays:
    """A published run and its prediction."""
    case = cases()[name]
    result = simulate_run(scenario_of(case), sensitivities=False)
    return PublishedDays(name=name, days=float(case["days"]), result=result, case=case)


def table(runs: Sequence[PublishedDays]) -> str:
    """One line a run."""
    lines = []
    for run in runs:
        r, case = run.result, run.case
        band = f"{r.interval['low']:.0f} to {r.interval['high']:.0f}{'' if run.inside else ', **outside**'}"
        lines.append(
            [
                run.name,
                f"{run.days:g}",
                f"{r.days['mean']:.1f}",
                f"{100 * run.error:+.0f}".replace("-", "−"),
                band,
                f"{r.ideal_days:.1f}",
                f"{r.goodput:.3f}" + (f" ({case['goodput']})" if "goodput" in case else ""),
                f"{r.failures_mean:.0f}",
                "yes" if _fits(r) else "no",
            ]
        )
    head = ["run", "published, days", "predicted", "error, %", "80 % band", "ideal", "goodput", "failures", "fits"]
    return markdown(head, lines)


def _fits(result: RunResult) -> bool:
    return not any("does not fit in the device's memory" in line for line in result.warnings)


def settings(runs: Sequence[PublishedDays]) -> str:
    """What each published figure is, where it stands, and what was assumed, one line a run."""
    return "\n".join(
        f"* **{run.name}**: {run.case['how']}. {run.case['source']}. Assumed: {run.case['assumed']}." for run in runs
    )


def page() -> str:
    """The whole page."""
    runs = [published_days(name) for name in cases()]
    held = sum(run.inside for run in runs)
    words = _WORDS.read_text("utf-8")
    count = f"{held} of {len(runs)} published runs lie inside their bands."
    return words.replace("{count}", count).replace("{table}", table(runs)).replace("{settings}", settings(runs))


if __name__ == "__main__":
    print(page(), end="")
