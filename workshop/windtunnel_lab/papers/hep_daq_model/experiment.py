"""The CMS data acquisition of 2032 as a row of filters: as planned, and with better early stages."""

from __future__ import annotations

import numpy as np

from windtunnel_lab.models.clusters.filter_pipeline import Filter, PipelineFigures, figures, separation_of
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "hep-daq-model")
fixed = EXPERIMENT.fixed


def wall(nbytes: float, share: float = 1.0) -> float:
    """Processing of an event over that of 60 collisions: a cubic through the origin and the three published sizes."""
    x, y = (np.array(fixed("walls")[name], float) for name in ("bytes", "relative"))
    powers = np.arange(1, 4)
    factors = np.linalg.solve((x[:, None] / x[-1]) ** powers, y)
    return share * float(((nbytes / x[-1]) ** powers) @ factors)


def system(
    values: Values, *, devices: bool = False, smart: bool = False, tracking: float = 0.0, skilled: float = 0.0
) -> PipelineFigures:
    """The row of filters.

    Args:
        values: open settings.
        devices: the high level takes half of the time.
        smart: the inner tracker sends less.
        tracking: added to the separation of the first level.
        skilled: added to that of the high level.
    """
    first, high, links = fixed("first_level"), fixed("high_level"), fixed("links_pj_per_bit")
    nbytes = fixed("detector_bytes") - fixed("smart_share") * fixed("inner_tracker_bytes") * smart
    share, density = fixed("device_share") if devices else 1.0, values["density"]
    sent_w = fixed("events_per_s") * nbytes * 8.0 * links["detector"] * 1e-12
    link = links["router"] * 1e-12 / density
    stages = [
        Filter(
            name="first level",
            reduction=first["reduction"],
            separation=separation_of(first["relevant"], first["others"]) + tracking,
            operations=lambda size: size / first["bytes_per_operation"],
            joules_per_operation=first["j_per_operation"] / density,
            added_bytes=first["added_bytes"],
            link_joules_per_bit=link,
        ),
        Filter(
            name="high level",
            reduction=high["reduction"],
            separation=separation_of(high["relevant"], high["others"]) + skilled,
            operations=lambda size: wall(size, share),
            joules_per_operation=high["j_per_operation"] / density,
            link_joules_per_bit=link,
        ),
    ]
    events = fixed("events_per_s")
    return figures(
        stages,
        events_per_s=events,
        event_bytes=nbytes,
        relevant_per_s=events / fixed("relevant"),
        source_w=sent_w / density,
    )


def boost(values: Values) -> float:
    """Separation that tracking adds to the first level: what makes its share of relevant events the stated one."""
    first = fixed("first_level")
    prevalence = 1.0 / fixed("relevant")
    false = (1.0 / first["reduction"] - prevalence * values["tracking_hit"]) / (1.0 - prevalence)
    return separation_of(values["tracking_hit"], false) - separation_of(first["relevant"], first["others"])


def best(values: Values) -> PipelineFigures:
    """All three improvements."""
    return system(values, devices=True, smart=True, tracking=boost(values))


def early(values: Values) -> float:
    """Yield with more skill in the first level over that with as much more in the high level."""
    more = boost(values)
    return system(values, tracking=more).relevant_samples_per_j / system(values, skilled=more).relevant_samples_per_j


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "power": lambda v: 1.0 - system(v, devices=True, smart=True).power_w / system(v).power_w,
        "samples/before": lambda v: 1e3 * system(v).relevant_samples_per_j,
        "samples/after": lambda v: 1e3 * best(v).relevant_samples_per_j,
        "samples/ratio": lambda v: best(v).relevant_samples_per_j / system(v).relevant_samples_per_j,
        "early": early,
    }
