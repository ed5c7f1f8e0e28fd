"""Refit the catalogue's coefficients and residuals: `python -m windtunnel_lab.fit.refit_training ROWS`.

Writes `catalog/coefficients/fitted/<software>.yaml` (value, standard error, rows that set it, fabrics they ran on),
`fitted/pooled.yaml` (what software and generations share, for runs without a fit) and
`catalog/residuals/training.json` (one line a configuration: its errors when it took no part in the fit).
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import windtunnel
from windtunnel.training.uncertainty.comparable_runs import COLUMNS, WAYS, distances, residuals
from windtunnel.validation.rows.row_files import with_shipped
from windtunnel_lab.fit.group_fit import GroupFit, calibrate_group
from windtunnel_lab.fit.leave_out import all_assumed_of, all_errors_without, read_spec, record_of
from windtunnel_lab.fit.residuals import lines, table, with_intervals
from windtunnel_lab.fit.shared_effects import SCALES

_ROOT = Path(windtunnel.__file__).parent
_CATALOG = _ROOT / "catalog"
_WRITER = "windtunnel_lab.fit.refit_training"


def calibrate(
    rows: list[dict[str, Any]], groups: list[dict[str, Any]], defaults: dict[str, Any], *, workers: int = 2
) -> list[GroupFit]:
    """Every group, fitted: kinds of devices first, on which the fits of their generations stand."""
    out: dict[int, GroupFit] = {}
    with ProcessPoolExecutor(workers) as pool:
        for first in (True, False):
            jobs = {}
            for index, group in enumerate(groups):
                if bool(group.get("kind_of_device")) == first:
                    jobs[index] = pool.submit(calibrate_group, rows, group, defaults, below_of(group, out.values()))
            for index, job in jobs.items():
                out[index] = job.result()
                print(out[index].text, flush=True)
    return [out[index] for index in sorted(out)]


def below_of(group: dict[str, Any], done: Iterable[GroupFit]) -> dict[str, float]:
    """Fitted values of a group's kind of device."""
    own = next((f for f in done if f.software == group["software"] and f.level == group.get("kind")), None)
    return {} if own is None else {name: float(entry["value"]) for name, entry in own.fitted.items()}


def write_fits(fits: list[GroupFit]) -> None:
    """`fitted/<software>.yaml` of every software in `fits`."""
    import yaml

    folder = _CATALOG / "coefficients/fitted"
    folder.mkdir(exist_ok=True)
    for software in sorted({f.software for f in fits if f.fitted}):
        own = [f for f in fits if f.software == software and f.fitted]
        data = {
            "name": f"{software}, fitted",
            "fabrics": {f.level: list(f.fabrics) for f in own},
            "coefficients": {f.level: f.fitted for f in own},
        }
        text = yaml.safe_dump(data, sort_keys=False, width=120)
        (folder / f"{software}.yaml").write_text(f"# Written by {_WRITER}; do not edit.\n{text}")


def write_shared(effects: dict[str, Any]) -> None:
    """`fitted/pooled.yaml`."""
    import yaml

    text = yaml.safe_dump({"name": "pooled", "scales": SCALES, "pooled": effects}, sort_keys=False, width=120)
    note = "# Written by windtunnel_lab.fit.refit_training; do not edit. Effects are natural logarithms.\n"
    (_CATALOG / "coefficients/fitted/pooled.yaml").write_text(note + text)


def write_residuals(
    rows: list[dict[str, Any]],
    folds: dict[tuple[str, ...], float],
    known_distances: dict[str, float] | None = None,
) -> None:
    """`fitted/pooled.yaml` and `residuals/training.json`, from the fits of all groups.

    Args:
        rows: measured rows.
        folds: rows of a configuration → its error without its fold.
        known_distances: distances between runs; absent: the best ones are looked for.
    """
    begun = time.perf_counter()
    record = record_of(rows)
    print(f"derivatives of {len(record.found)} configurations: {time.perf_counter() - begun:.0f} s", flush=True)
    write_shared(record.shared.effects(sorted(record.setting)))
    errors = all_errors_without(rows, record, [way for way in WAYS if way != "fold"])
    for ids, error in folds.items():
        errors.setdefault(ids, {})["fold"] = error
    target = _CATALOG / "residuals/training.json"
    target.parent.mkdir(exist_ok=True)
    found = [(c, errors.get(c.ids, {})) for c in record.found]
    about = record.spec["sites"], all_assumed_of(rows), record.spec["composed"]
    target.write_text(lines(table(found, *about, known_distances)))
    print(f"residuals: {time.perf_counter() - begun:.0f} s", flush=True)


def write_intervals() -> None:
    """Parameters of intervals anew, from the errors of the residual file."""
    target = _CATALOG / "residuals/training.json"
    data = json.loads(target.read_text())
    kept = [row[: len(COLUMNS) + 5 + len(WAYS)] for row in data["rows"]]
    target.write_text(lines(with_intervals(kept, data["distances"])))


def stored_folds() -> dict[tuple[str, ...], float]:
    """Errors out of fold of the residual file that ships."""
    return {r.ids: error for r in residuals() if (error := r.error("fold")) is not None}


def main() -> None:
    """Command line: the rows file, then software names to refit alone, or --keep-fits to renew what follows from fits.

    With --keep-fits, --keep-distances keeps the distances between runs too; --intervals keeps errors as well and renews
    the parameters of intervals alone. Shared effects and the residual file need every group: a run on some software
    alone writes its fit and prints its errors.
    """
    if "--intervals" in sys.argv:
        write_intervals()
        return
    rows = json.loads(Path(sys.argv[1]).read_text())
    if "--keep-fits" in sys.argv:
        kept = distances() if "--keep-distances" in sys.argv else None
        write_residuals(with_shipped(rows), stored_folds(), kept)
        return
    spec = read_spec()
    chosen = set(sys.argv[2:])
    groups = [g for g in spec["groups"] if not chosen or g["software"] in chosen]
    judges = spec["judges"]
    known = [r for r in with_shipped(rows) if r.get("family")]
    setting = [r for r in known if r["family"] not in judges["families"] and r["id"] not in judges["rows"]]
    fits = calibrate(setting, groups, spec["defaults"])
    write_fits(fits)
    folds = {ids: error for f in fits for ids, error in f.folds.items()}
    _print_families(folds, {r["id"]: r["family"] for r in known})
    if not chosen:
        write_residuals(with_shipped(rows), folds)


def _print_families(folds: dict[tuple[str, ...], float], family_of: dict[str, str]) -> None:
    """One line a family: errors out of fold in percent."""
    by_family: dict[str, list[float]] = defaultdict(list)
    for ids, error in folds.items():
        by_family[family_of[ids[0]]].append(error)
    for family, errors in sorted(by_family.items()):
        e = np.array(errors)
        mean, median, bias = 100 * np.abs(e).mean(), 100 * np.median(np.abs(e)), 100 * e.mean()
        print(f"{family:22s} n {len(e):4d} mean {mean:5.2f} median {median:5.2f} bias {bias:+5.2f}", flush=True)


if __name__ == "__main__":
    main()
