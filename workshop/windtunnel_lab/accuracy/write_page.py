"""Writes docs/accuracy/training.md from a validation run.

Run `python -m windtunnel_lab.accuracy.write_page --rows FILE --out FILE`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from windtunnel.training.uncertainty.memory_interval import coverage
from windtunnel.validation.predict.report import RowOutcome, ValidationReport
from windtunnel.validation.predict.validate import validate
from windtunnel_lab.accuracy import tables
from windtunnel_lab.accuracy.expected_error import expected_error
from windtunnel_lab.accuracy.out_of_sample import out_of_fold, out_of_sample
from windtunnel_lab.accuracy.plan_ranking import rank_groups, regret_text
from windtunnel_lab.accuracy.plots import residual_plot
from windtunnel_lab.accuracy.power_table import power_table
from windtunnel_lab.accuracy.published_runs import published_runs, published_table, sources
from windtunnel_lab.accuracy.serving_table import serving_tables
from windtunnel_lab.accuracy.tables import markdown, percent
from windtunnel_lab.accuracy.unseen_table import unseen_families

_PEERS = Path(__file__).parent / "peers.yaml"
_STORY = Path(__file__).parent / "text"
_INTRODUCTION = (_STORY / "introduction.md").read_text("utf-8")


def peers() -> list[dict[str, Any]]:
    """Published or reproduced errors of other tools."""
    data: list[dict[str, Any]] = yaml.safe_load(_PEERS.read_text("utf-8"))
    return data


def _memory(report: ValidationReport) -> str:
    groups: dict[tuple[str, str, str], list[RowOutcome]] = {}
    for row in report.rows:
        if row.row_kind == "training" and "memory" in row.metric:
            groups.setdefault((row.family, row.device, row.metric), []).append(row)
    lines = []
    for key, members in sorted(groups.items()):
        e = np.array([r.error for r in members if r.error is not None])
        size = np.abs(e)
        cells = [size.mean(), np.median(size), np.percentile(size, 90), e.mean()] if e.size else [None] * 4
        counts = [len(r.assumed) for r in members]
        lines.append(
            [
                *key,
                f"{e.size} of {len(members)}",
                *(percent(None if c is None else float(c)) for c in cells),
                f"{np.mean(counts):.1f}",
                percent(float(np.mean([c > 4 for c in counts])), 0),
            ]
        )
    return markdown(["family", "device", "metric", "rows", "mean", "median", "p90", "bias", "assumed", ">4"], lines, 3)


def _misfits(report: ValidationReport) -> str:
    """Runs that were measured although the simulator says that they do not fit."""
    counts: dict[tuple[str, str], list[bool]] = {}
    seen: set[str] = set()
    for row in report.rows:
        if row.row_kind == "training" and row.fits is not None and row.metric != "oom" and row.id not in seen:
            seen.add(row.id)
            counts.setdefault((row.family, row.device), []).append(row.fits)
    lines = [
        [family, device, f"{fits.count(False)} of {len(fits)}"]
        for (family, device), fits in sorted(counts.items())
        if False in fits
    ]
    return markdown(["family", "device", "ran, predicted not to fit"], lines) if lines else "None."


def _peer_table(rows: Sequence[RowOutcome]) -> str:
    lines = []
    for entry in peers():
        ours = [
            abs(r.error)
            for r in rows
            if r.family == entry["family"]
            and r.error is not None
            and r.metric != "peak_memory_reserved"
            and (r.metric.startswith("peak") == entry["family"].endswith("memory"))
        ]
        if ours:
            mean = f"{100 * float(np.mean(ours)):.1f} ({len(ours)})"
            theirs = f"{entry['mape']} ({entry['rows']})"
            lines.append([entry["family"], entry["tool"], theirs, str(entry.get("bias", "–")), mean, entry["source"]])
    return markdown(["family", "tool", "its MAPE (rows)", "its bias", "ours (rows)", "how obtained"], lines)


def _ranking(rows: Sequence[RowOutcome]) -> str:
    lines = [
        [r.family, r.group, str(r.n), str(r.pairs), f"{r.tau:.2f}", percent(r.regret), f"{r.taken} of {r.n}"]
        for r in sorted(rank_groups(rows), key=lambda r: (r.family, r.group))
    ]
    table = markdown(["family", "group", "plans", "pairs", "Kendall tau", "regret", "place of the pick"], lines)
    return f"{regret_text(rows)}\n\n{table}"


def _micro(report: ValidationReport) -> str:
    lines = [
        [
            s.family,
            s.device,
            s.row_kind,
            s.metric,
            f"{s.n_predicted} of {s.n}",
            percent(s.mape),
            percent(s.median_ape),
            percent(s.bias),
        ]
        for s in sorted(report.summary, key=lambda s: (s.row_kind, s.family, s.device))
        if s.row_kind in ("collective", "kernel")
    ]
    return markdown(["operation", "device", "kind", "metric", "rows", "MAPE", "median", "bias"], lines)


def _memory_bands() -> str:
    """How often the 80 % intervals around memory peaks hold, each with its model and cluster left out."""
    lines = [
        [metric, str(count), percent(inside), percent(width)] for metric, (count, inside, width) in coverage().items()
    ]
    return markdown(["peak", "distinct", "inside the 80 % band", "mean width"], lines)


def _reasons(report: ValidationReport) -> str:
    counts: dict[tuple[str, str], int] = {}
    for row in report.rows:
        if row.predicted is None:
            counts[(row.family, row.reason)] = counts.get((row.family, row.reason), 0) + 1
    lines = [[family, reason, str(n)] for (family, reason), n in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))]
    return markdown(["family", "reason", "values"], lines[:40]) if lines else "Every value was predicted."


def accuracy_page(report: ValidationReport, images: str = "../img") -> str:
    """The whole page as Markdown.

    Args:
        report: what was predicted.
        images: folder of the residual plots, relative to the page.
    """
    training = [r for r in report.rows if r.row_kind == "training" and r.metric != "none"]
    predicted = sum(r.predicted is not None for r in training)
    apart = out_of_fold(report)
    parts = [
        "# Accuracy",
        expected_error(),
        _INTRODUCTION,
        f"{predicted} of {len(training)} measured training values are predicted, from {report.scenarios} distinct "
        "scenarios.",
        _text("unseen"),
        unseen_families(),
        _text("published"),
        published_table(published_runs()),
        sources(),
        _text("families"),
        tables.families(report),
        tables.without_record(report),
        _text("detail"),
        tables.by_family(report),
        *_stories(images),
        _text("devices"),
        tables.left_out(report, "device"),
        _text("software"),
        tables.left_out(report, "software"),
        _text("differences"),
        tables.paired(report),
        _text("memory"),
        _memory(report),
        _memory_bands(),
        "Measured runs that the simulator says do not fit (each is a miss of the memory model or of the reading):",
        _misfits(report),
        _text("peers"),
        _peer_table(apart),
        _text("order"),
        _ranking(apart),
    ]
    if any(r.row_kind in ("collective", "kernel") for r in report.rows):
        parts += ["## Collectives and kernels", _micro(report)]
    parts += [_text("serving"), serving_tables(), _text("power"), power_table()]
    parts += ["## Not predicted", _reasons(report)]
    return "\n\n".join(p.strip() for p in parts if p.strip()) + "\n"


def _text(name: str) -> str:
    """A section's heading and words."""
    return (_STORY / f"{name}.md").read_text("utf-8")


def _stories(images: str) -> list[str]:
    """Family groups: words, then the plot of their residuals."""
    out = ["## Family by family"]
    for group in story_groups():
        out += [
            (_STORY / f"{group['name']}.md").read_text("utf-8"),
            f"![{group['title']}]({images}/{group['name']}.svg)",
        ]
    return out


def story_groups() -> list[dict[str, Any]]:
    """Groups of families that share a story: {name, title, families, software}."""
    data: list[dict[str, Any]] = yaml.safe_load((_STORY / "groups.yaml").read_text("utf-8"))
    return data


def write_plots(folder: Path) -> None:
    """One SVG a group of families, of the residuals that ship."""
    folder.mkdir(parents=True, exist_ok=True)
    for group in story_groups():
        members = [
            j
            for j in out_of_sample()
            if j.residual.family in group["families"]
            and j.residual.subject.software in group.get("software", [j.residual.subject.software])
        ]
        if members:
            (folder / f"{group['name']}.svg").write_text(residual_plot(group["title"], members), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=Path, nargs="*", help="JSON lists of measured rows; absent: the rows we ship")
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy/training.md"))
    options = parser.parse_args(arguments)
    from windtunnel.validation.rows.row_files import load_rows, with_shipped

    rows = with_shipped([r for path in options.rows or () for r in load_rows(path)])
    options.out.write_text(accuracy_page(validate(rows)), encoding="utf-8")
    write_plots(options.out.parent.parent / "img")


if __name__ == "__main__":
    main()
