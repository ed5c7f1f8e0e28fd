"""Errors on the rows that we ship may not grow beyond the first accuracy bars."""

from __future__ import annotations

import pytest

from windtunnel.validation.predict.validate import validate

pytestmark = pytest.mark.validation

LIMITS = {
    ("narayanan-t1", "hardware_tflops_per_device"): 0.03,
    ("korthikanti", "step_time"): 0.036,
    ("megascale-baseline", "step_time"): 0.10,
    ("llama3-paper", "tflops_per_device"): 0.10,
    ("vtrain-multi", "step_time"): 0.07,
    ("simumax-b200-memory", "peak_memory_allocated"): 0.04,
    ("dgxc-benchmarking", "step_time"): 0.20,
    ("llm-foundry", "step_time"): 0.15,
    ("nemo-docs", "step_time"): 0.15,
}


@pytest.mark.parametrize(("family", "metric"), LIMITS)
def test_family_stays_within_its_limit(family: str, metric: str) -> None:
    report = validate(families=[family])
    errors = [abs(r.error) for r in report.rows if r.metric == metric and r.error is not None]
    assert len(errors) == sum(r.metric == metric for r in report.rows) > 0
    assert sum(errors) / len(errors) <= LIMITS[family, metric]


def test_narayanan_has_no_trend_over_size() -> None:
    report = validate(families=["narayanan-t1"])
    errors = [r.error for r in sorted(report.rows, key=lambda r: r.devices) if r.error is not None]
    small, large = sum(errors[:5]) / 5, sum(errors[-5:]) / 5
    assert abs(large - small) < 0.06
