"""Which error to expect, in one paragraph: README and the pages on accuracy say it in these words."""

from __future__ import annotations

import textwrap

import numpy as np

from windtunnel.serving.results.measured_residuals import known_residuals
from windtunnel_lab.accuracy.out_of_sample import out_of_sample
from windtunnel_lab.accuracy.unseen_table import left_out_families
from windtunnel_lab.fit.leave_out_table import Overall
from windtunnel_lab.fit.serving_leave_out import SetsTogether, with_free_cache


def expected_error() -> str:
    """Errors of training and serving, with a configuration and with its whole family left out of the fits that ship."""
    seen = out_of_sample()
    known = 100.0 * float(np.median([abs(one.error) for one in seen]))
    unseen, serving = Overall.of(left_out_families()), SetsTogether.of(with_free_cache(known_residuals()))
    text = (
        f"Expect an error of {known:.0f} % in the time of a training step on software and devices that were measured "
        f"(median of {len(seen):,} configurations, each left out of the fits), and of {100.0 * unseen.median:.0f} % on "
        f"families of runs that were never seen; for serving {serving.median_percent:.0f} %. Of such unseen runs "
        f"{100.0 * unseen.coverage:.0f} % lie inside the 80 % interval that every answer carries (serving: "
        f"{serving.inside_percent:.0f} %)."
    )
    return textwrap.fill(text, 128)
