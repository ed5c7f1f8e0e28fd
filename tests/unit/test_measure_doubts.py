"""What `measure` says of a profile that did not measure the step it is used for."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.calibration.measure import doubts


def _scenario(ranks: int, *formats: str) -> dict[str, Any]:
    device = {"peak_flop_per_s": dict.fromkeys(formats, 1e12), "profile": {"conditions": {"ranks": ranks}}}
    return {"cluster": {"device": device}}


@pytest.mark.parametrize(("made", "ran", "told"), [(1, 2, "with 1 process, this ran 2"), (2, 1, "with 2 processes")])
def test_another_number_of_processes_is_told(made: int, ran: int, told: str) -> None:
    (line,) = doubts(_scenario(made, "fp32"), ran, "fp32")
    assert told in line and f"calibrate --ranks {ran}" in line


def test_a_format_that_was_not_measured_is_told() -> None:
    (line,) = doubts(_scenario(2, "fp32"), 2, "bf16")
    assert "no products in bf16: predicted at the rate of fp32" in line


def test_a_fitting_profile_and_a_device_of_the_catalogue_raise_none() -> None:
    assert doubts(_scenario(2, "fp32", "bf16"), 2, "bf16") == ()
    assert doubts({"cluster": {"device": "h100-sxm-80gb"}}, 2, "bf16") == ()
