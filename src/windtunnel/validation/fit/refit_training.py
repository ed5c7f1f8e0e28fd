"""Refit the catalogue's coefficients and residuals: `python -m windtunnel.validation.fit.refit_training ROWS`.

Writes `catalog/coefficients/fitted/<software>.yaml` (value, standard error, rows that set it), `fitted/pooled.yaml`
(what pairs without rows take over) and `catalog/residuals/training.json` (one line a configuration: its errors when it
took no part in the fit).
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.validation.fit.group_fit import GroupFit, calibrate_group
from windtunnel.validation.fit.leave_out import write_transfer
from windtunnel.validation.rows.row_files import with_shipped

_ROOT = Path(__file__).resolve().parents[2]


def calibrate(
    rows: list[dict[str, Any]], groups: list[dict[str, Any]], defaults: dict[str, Any], *, workers: int = 2
) -> list[GroupFit]:
    """Every group, fitted."""
    with ProcessPoolExecutor(workers) as pool:
        jobs = [pool.submit(calibrate_group, rows, group, defaults) for group in groups]
        out = []
        for job in jobs:
            out.append(job.result())
            print(out[-1].text, flush=True)
    return out


def write_fits(fits: list[GroupFit]) -> None:
    """`fitted/<software>.yaml` of every software in `fits`."""
    import yaml

    folder = _ROOT / "catalog/coefficients/fitted"
    folder.mkdir(exist_ok=True)
    for software in sorted({f.software for f in fits if f.fitted}):
        levels = {f.level: f.fitted for f in fits if f.software == software and f.fitted}
        text = yaml.safe_dump({"name": f"{software}, fitted", "coefficients": levels}, sort_keys=False, width=120)
        (folder / f"{software}.yaml").write_text("# Written by validation.fit.refit_training; do not edit.\n" + text)


def main() -> None:
    """Command line: the rows file, and optionally software names to refit alone.

    Left-out devices and software, pooled effects and the residual file need every group: a run on some software alone
    writes its fit and prints its errors.
    """
    import yaml

    rows = json.loads(Path(sys.argv[1]).read_text())
    spec = yaml.safe_load((Path(__file__).with_name("priors.yaml")).read_text())
    chosen = set(sys.argv[2:])
    groups = [g for g in spec["groups"] if not chosen or g["software"] in chosen]
    for g in groups:  # a device with a fit of its own takes no part in its generation's
        g["apart"] = [o["level"] for o in groups if o["software"] == g["software"] and o is not g]
    fits = calibrate(rows, groups, spec["defaults"])
    write_fits(fits)
    by_family: dict[str, list[float]] = defaultdict(list)
    family_of = {r["id"]: r["family"] for r in rows}
    for f in fits:
        for ids, error in f.folds.items():
            by_family[family_of[ids[0]]].append(error)
    for family, errors in sorted(by_family.items()):
        e = np.array(errors)
        mean, median, bias = 100 * np.abs(e).mean(), 100 * np.median(np.abs(e)), 100 * e.mean()
        print(f"{family:22s} n {len(e):4d} mean {mean:5.2f} median {median:5.2f} bias {bias:+5.2f}")
    if not chosen:
        write_transfer(with_shipped(rows), fits, spec["defaults"])


if __name__ == "__main__":
    main()
