"""Axes as the command line writes them."""

from __future__ import annotations

import pytest

from windtunnel.errors import BadInput
from windtunnel.sweeps.axes import cells_of, points_of, read_axes


def values(text: str) -> list[object]:
    """Values of the one axis that a text makes."""
    (axis,) = read_axes([text], [])
    return [value for (value,) in axis.values]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plan.tp=1,2,4", [1, 2, 4]),
        ("cluster.nodes=8..512:x2", [8, 16, 32, 64, 128, 256, 512]),
        ("plan.mbs=1..9:+2", [1, 3, 5, 7, 9]),
        ("serving.rate=0.5..8:5", [0.5, 1.0, 2.0, 4.0, 8.0]),
        ("x=0..4:5", [0, 1, 2, 3, 4]),
        ("training.precision=bf16, fp8", ["bf16", "fp8"]),
        ("plan.recompute=[none, {policy: full}]", ["none", {"policy": "full"}]),
        ("serving.prefix_caching=true,false", [True, False]),
        ("plan.schedule=null,zb-h1", [None, "zb-h1"]),
    ],
)
def test_values_of_an_axis(text: str, expected: list[object]) -> None:
    assert values(text) == expected


def test_whole_numbers_stay_whole() -> None:
    assert all(isinstance(value, int) for value in values("cluster.nodes=8..512:x2"))


def test_the_last_axis_turns_fastest() -> None:
    axes = read_axes(["a=1,2", "b=3,4,5"], [])
    assert cells_of(axes) == 6
    assert [dict(p.settings) for p in points_of(axes)][:4] == [
        {"a": 1, "b": 3},
        {"a": 1, "b": 4},
        {"a": 1, "b": 5},
        {"a": 2, "b": 3},
    ]


@pytest.mark.parametrize("text", ["a=1,2 b=3,4", "a=1,2;b=3,4", "a=1,2,b=3,4"])
def test_fields_that_vary_together(text: str) -> None:
    axes = read_axes([], [text])
    assert [dict(p.settings) for p in points_of(axes)] == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


def test_no_axis_is_one_cell() -> None:
    assert [p.settings for p in points_of(read_axes([], []))] == [()]


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        read_axes(["plan.tp", "a=4..2:x2", "b=1..8:x1", "c=1..8", "d=1,1", "e=2", "e=3"], ["f=1,2 g=1,2,3", "h=1"])
    rules = " | ".join(str(p) for p in caught.value.problems)
    for words in ("field=values", "below the second", "above 1", "needs its step", "twice", "varies twice",
                  "as many values", "two fields or more"):  # fmt: skip
        assert words in rules


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(BadInput, match="combinations"):
        read_axes(["a=1..2000:+1", "b=1..2000:+1"], [])


def test_a_field_of_an_axis_may_have_a_value_again_where_the_others_differ() -> None:
    (axis,) = read_axes([], ["nodes=32,32,64 batch=1,2,1"])
    assert axis.values == ((32, 1), (32, 2), (64, 1))
    with pytest.raises(BadInput, match="32, 1 twice"):
        read_axes([], ["nodes=32,32,32 batch=1,2,1"])
    with pytest.raises(BadInput, match="twice"):
        read_axes(["a=[1, 2, 1]"], [])
    assert read_axes(["a=[1, true]"], [])[0].values == ((1,), (True,))
