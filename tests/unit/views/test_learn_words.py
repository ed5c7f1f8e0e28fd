"""Sentences at the end of `learn` and `reason`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from windtunnel.learning.charts import ACROSS
from windtunnel.views.learn import drawn, verdict_lines
from windtunnel.views.reason import in_short


def _algorithm(label: str, *reasons: str) -> Any:
    return SimpleNamespace(label=label, resolved=not reasons, reasons=reasons)


def _turns(other: str) -> str:
    return f"a doubled learning rate turns the order with {other}: a gap of +0.1 becomes -0.1"


def test_each_pair_that_cannot_be_ordered_is_told_once() -> None:
    a, b, c = "data_parallel", "diloco", "streaming-diloco"
    result: Any = SimpleNamespace(
        algorithms=[
            _algorithm(a, _turns(b)),
            _algorithm(b, _turns(a), _turns(c), "a run diverged"),
            _algorithm(c, _turns(b)),
        ]
    )
    lines = verdict_lines(result)
    assert [line for line in lines if "too close to call" in line] == [
        f"{a} and {b} are too close to call: a doubled learning rate turns their order",
        f"{b} and {c} are too close to call: a doubled learning rate turns their order",
    ]
    assert [line for line in lines if "too close" not in line] == [f"{b}: not resolved: a run diverged"]


def test_reason_ends_with_what_to_do() -> None:
    point: Any = SimpleNamespace(label="best_of_n", model="a/b", accuracy=SimpleNamespace(mean=0.86), cost_usd=0.0353)
    known: dict[str, Any] = {"": {"grade": "fitted"}}
    result: Any = SimpleNamespace(best=point, points=(point, point), population=known)
    assert in_short(result) == "Take best_of_n on b, right in 86 % of problems for 0.0353 USD each."
    result.population = {"": {"grade": "assumed"}}
    assert in_short(result).endswith("is assumed, so measure that before you decide.")
    result.best = None
    assert in_short(result).count(".") == 1 and "2 candidates" in in_short(result)


@pytest.mark.parametrize("width", [50, 80, 120])
def test_a_plot_is_as_wide_as_the_terminal(width: int) -> None:
    names, steps = [f"a_long_name_{n}" for n in range(5)], np.arange(200)
    result: Any = SimpleNamespace(
        algorithms=[SimpleNamespace(label=name) for name in names],
        curves=[SimpleNamespace(algorithm=name, step=steps, loss=3.0 - 0.01 * steps) for name in names],
    )
    lines = drawn(result, ACROSS[0], width).splitlines()
    assert max(map(len, lines)) == width - 2  # the section stands two characters in
    assert lines[-1].endswith(" 199") and max(len(line) for line in lines if "┤" in line) == width - 2
    assert all(any(name in line for line in lines) for name in names)
