"""Table of families that were left out whole, which is what a new user gets; the accuracy page opens with it."""

from __future__ import annotations

from windtunnel.training.uncertainty.comparable_runs import residuals
from windtunnel_lab.accuracy.tables import markdown, percent
from windtunnel_lab.fit.leave_out import read_spec
from windtunnel_lab.fit.leave_out_table import Overall, UnitErrors, unit_errors


def left_out_families() -> list[UnitErrors]:
    """Errors of each family without itself in the fits."""
    return unit_errors([r for r in residuals() if r.error("family") is not None], "family")


def unseen_families() -> str:
    """One line a family (site and software), then families that set coefficients, those that only judge, and all."""
    judges = set(read_spec()["judges"]["families"])
    units = left_out_families()
    setting = [u for u in units if u.name not in judges]
    judging = [u for u in units if u not in setting]
    lines = [_line(u, "" if u in setting else "judges") for u in units]
    for name, own in (("set coefficients", setting), ("only judge", judging), ("all", units)):
        if own:
            lines.append(_summary(f"**{name}, families equally**", own))
    head = ["family left out", "", "configurations", "mean", "median", "bias", "in band", "width / mean"]
    return markdown(head, lines, 2)


def _line(u: UnitErrors, note: str) -> list[str]:
    cells = [percent(u.mean), percent(u.median), percent(u.bias), percent(u.coverage, 0)]
    return [u.name, note, str(u.configurations), *cells, f"{u.width / u.mean:.1f}" if u.mean else "–"]


def _summary(name: str, units: list[UnitErrors]) -> list[str]:
    whole, count = Overall.of(units), sum(u.configurations for u in units)
    cells = [percent(whole.mean), percent(whole.median), "", percent(whole.coverage, 0)]
    return [name, "", str(count), *cells, f"{whole.width_over_error:.1f}"]
