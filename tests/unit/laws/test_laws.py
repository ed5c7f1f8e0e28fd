"""Published laws: figures that their papers print, ranges that refuse, intervals that contain and grow."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.laws import LAWS, Coefficient, Law, Quantity, Question
from windtunnel.laws.power_sum import loss, optimum
from windtunnel.laws.published.budgeted_multi_agent import amplification, majority, slope
from windtunnel.laws.published.kinetics import eflop, kv_tokens
from windtunnel.laws.published.large_language_monkeys import of_beta
from windtunnel.laws.published.muon_mla_moe import newton_schulz_flop
from windtunnel.laws.published.qqt_data_filtering import best, error
from windtunnel.laws.published.ttspm import next_gain, reached, saturation

GUIDE = Path(__file__).parents[3] / "docs/guide/scaling-laws.md"


def value(law: str, figure: str, **given: object) -> float:
    return LAWS.get(law).predict(given).values[figure].value


def test_printed_examples_come_out() -> None:
    assert value("chinchilla", "parameters", flop=5.76e23) == pytest.approx(40e9, rel=0.02)  # table 3, approach 3
    assert value("chinchilla-refit", "tokens_per_parameter", flop=5.76e23) == pytest.approx(20, rel=0.1)
    assert value("beyond-chinchilla", "parameters", parameters="13B", served="2T") == pytest.approx(7e9, rel=0.05)
    assert value("beyond-chinchilla", "saved", parameters="13B", served="2T") == pytest.approx(0.17, abs=0.01)
    assert value("kaplan", "parameters", flop=8.64e19) == pytest.approx(1.3e9)
    assert value("diloco-scaling", "loss", parameters=2.4e9, workers=1) == pytest.approx(19.226 * 2.4e9**-0.0985)


@pytest.mark.parametrize(("streams", "stack", "pile"), [(1, 1.0817, 1.9539), (2, 1.0623, 1.9266), (8, 1.0383, 1.8856)])
def test_streams_give_the_losses_that_the_authors_measured(streams: int, stack: float, pile: float) -> None:
    for data, measured in (("stack", stack), ("pile", pile)):
        answer = LAWS.get("parscale").predict({"data": data, "parameters": 1.58e9, "streams": streams}).values["loss"]
        assert answer.value == pytest.approx(measured, rel=0.005)
        assert answer.low < measured < answer.high


def test_the_optimum_is_a_minimum_on_its_budget() -> None:
    c = {name: one.value for name, one in LAWS.get("chinchilla-refit").tables[""].items()}
    n, d = optimum(1e22, c)
    assert 6 * n * d == pytest.approx(1e22)
    assert loss(n, d, c) < min(loss(n * f, d / f, c) for f in (0.9, 1.1))


def test_tokens_to_a_loss_undo_the_loss() -> None:
    tokens = value("chinchilla", "tokens", parameters=7e9, loss=2.1)
    assert value("chinchilla", "loss", parameters=7e9, tokens=tokens) == pytest.approx(2.1)


def test_nothing_served_is_trained_as_chinchilla_says() -> None:
    lifetime = LAWS.get("beyond-chinchilla").predict({"parameters": 7e9, "served": 0})
    assert lifetime.values["parameters"].value == pytest.approx(7e9, rel=1e-3)
    assert lifetime.values["saved"].value == pytest.approx(0.0, abs=1e-6)
    sizes = [value("beyond-chinchilla", "parameters", parameters=7e9, served=x) for x in (1e11, 1e12, 1e13)]
    assert sizes == sorted(sizes, reverse=True)


def test_outside_its_range_a_law_refuses_every_quantity_or_widens() -> None:
    law, inside, far = (
        LAWS.get("chinchilla-refit"),
        {"parameters": 1e9, "tokens": 2e10},
        {"parameters": 7e10, "tokens": 1.4e12},
    )
    with pytest.raises(BadInput) as refused:
        law.predict(far)
    assert [one.field for one in refused.value.problems] == ["parameters", "tokens"]
    assert all("--extrapolate" in one.rule for one in refused.value.problems)
    answer, near = law.predict(far, extrapolate=True), law.predict(inside, extrapolate=True)
    assert answer.grade == "extrapolated" and len(answer.outside) == 2
    assert near.grade == "fitted" and not near.outside

    def width(one: object) -> float:
        estimate = one.values["loss"]  # type: ignore[attr-defined]
        return float(estimate.high - estimate.low)

    assert width(answer) > 2 * width(near)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(BadInput) as refused:
        LAWS.get("chinchilla").predict({"parameters": "seven", "tokns": 3, "loss": -1})
    assert [one.field for one in refused.value.problems] == ["tokns", "parameters", "loss"]
    assert refused.value.problems[0].nearest == "tokens"
    with pytest.raises(BadInput, match="it answers loss \\(parameters, tokens\\)"):
        LAWS.get("chinchilla").predict({})
    with pytest.raises(BadInput, match="tokens: is missing"):
        LAWS.get("kaplan").predict({"parameters": 1e9})
    with pytest.raises(BadInput, match="never has this loss"):
        LAWS.get("chinchilla-refit").predict({"parameters": 70e6, "loss": 1.9})
    with pytest.raises(BadInput, match="must be odd"):
        LAWS.get("budgeted-multi-agent").predict({"children": 4, "beta": 0.2})
    with pytest.raises(BadInput, match="must be one of encoder, decoder"):
        LAWS.get("tsfm-scaling-laws").predict({"architecture": "rnn", "data": "id", "parameters": 1e6})


@pytest.mark.parametrize(("text", "number"), [("7B", 7e9), ("1.4T", 1.4e12), ("2e10", 2e10), (3, 3.0), ("500 M", 5e8)])
def test_numbers_are_read_as_people_write_them(text: object, number: float) -> None:
    law = _linear()
    assert law.predict({"x": text}).values["y"].value == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "x", "7b9", "nan", "inf", "1e999", True, None, "7 8"])
def test_what_is_no_number_is_refused(text: object) -> None:
    with pytest.raises(BadInput, match="must be a number"):
        _linear().predict({"x": text})


def _linear() -> Law:
    return Law(
        id="linear",
        title="",
        source="",
        link="",
        confirmed="",
        valid="",
        quantities={"x": Quantity(doc="")},
        questions=(
            Question(id="y", summary="", needs=("x",), units={"y": ""}, answer=lambda v, c: {"y": c["slope"] * v["x"]}),
        ),
        tables={"": {"slope": Coefficient(value=1.0, error=0.1)}},
        residuals={"y": 0.2},
    )


def test_errors_and_residuals_add_in_quadrature() -> None:
    answer = _linear().predict({"x": 10}).values["y"]
    half = 1.2815515655446004 * math.hypot(1.0, 2.0)
    assert (answer.low, answer.high) == (pytest.approx(10 - half), pytest.approx(10 + half))


def test_encoders_of_time_series_fall_faster_than_decoders() -> None:
    table = LAWS.get("tsfm-scaling-laws").tables
    for data in ("id", "lsf"):
        for axis in ("parameters", "points", "flop"):
            names = (table[f"{one}/{data}"][f"alpha_{axis}"].value for one in ("encoder", "decoder"))
            assert next(names) > next(names)


@pytest.mark.parametrize("p", [1e-9, 0.003, 0.1, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("ceiling", [0.3, 1.0])
def test_samples_stop_at_the_first_that_gains_too_little(p: float, ceiling: float) -> None:
    for threshold in (1e-6, 0.01, 0.2):
        n = saturation(p, threshold, ceiling)
        assert next_gain(p, n, ceiling) < threshold
        assert n == 0 or next_gain(p, n - 1, ceiling) >= threshold
    for samples in (0, 1, 7, 250):
        told = sum(next_gain(p, k, ceiling) for k in range(samples))
        assert reached(p, samples, ceiling) == pytest.approx(told, rel=1e-9)


def test_pools_beyond_the_best_pay_at_larger_budgets_alone() -> None:
    b, tau = [0.2, 0.17, 0.14, 0.11], [2.0] * 4
    at = [best(seen, b, tau, 12.8e6, 0.022, 0.1) for seen in (12.8e6, 128e6, 6.4e8, 3e9)]
    assert at == sorted(at) and at[0] == 1 and at[-1] > 1
    once = error(12.8e6, b[:1], tau[:1], 12.8e6, 0.022, 0.1)
    assert once == pytest.approx(0.1 + (0.022 * 128) ** -0.2)


def test_whatever_is_asked_is_answered_in_order_or_refused() -> None:
    """Numbers from hopeless to beyond floating point, words and lists: a figure inside its interval, or `BadInput`."""
    rng, answered = random.Random(1), 0
    extremes = [
        0,
        1,
        37,
        0.5,
        1e-300,
        1e15,
        1e300,
        1e308,
        -1,
        "x",
        "0.1,0.2",
        "1e-300,1e300",
        "nan",
        "",
        None,
        True,
        [1, 2],
    ]
    for _ in range(3000):
        law = LAWS.get(rng.choice(LAWS.list()))
        question = rng.choice(law.questions)
        given = {
            name: rng.choice([*law.quantities[name].choices] * 5 or extremes)
            for name in (*question.needs, *question.may[: rng.randrange(3)])
        }
        try:
            answer = law.predict(given, extrapolate=rng.random() < 0.8)
        except BadInput:
            continue
        answered += 1
        assert all(math.isfinite(one.value) and one.low <= one.value <= one.high for one in answer.values.values())
        json.dumps(answer.to_dict(), allow_nan=False)
    assert answered > 100


def test_the_tail_of_a_beta_has_the_exponent_of_its_first_parameter() -> None:
    tail = LAWS.get("large-language-monkeys").predict({"samples": 1e4, "alpha": 0.3, "beta": 1.2}, extrapolate=True)
    assert tail.values["exponent"].value == pytest.approx(0.3, abs=0.01)
    assert of_beta(1, 0.3, 1.2) == pytest.approx(0.2)
    curve = {"samples": 250, "k1": 1, "c1": 0.159, "k2": 250, "c2": 0.56}
    assert value("large-language-monkeys", "coverage", **curve) == pytest.approx(0.56)


def test_majorities_multiply_small_biases_by_their_slope() -> None:
    for children in (3, 5, 15):
        assert majority(1e-6, children) / 1e-6 == pytest.approx(slope(children), rel=1e-6)
    assert amplification(5, 1.0, 0.7) == pytest.approx(0.7) and slope(3) == 1.5


def test_a_cache_costs_its_bytes_times_the_intensity() -> None:
    flop, read = eflop(1e9, 100, 1000, 4, 1e5, 1e5, flop_per_byte=500)
    assert read == pytest.approx(500 * 1e5 * (100 * 1000 + 4 * 1000**2 / 2))
    assert flop == pytest.approx(4 * (2e9 * 1000 + 1e5 * (100 * 1000 + 1000**2 / 2)))
    shared, own = kv_tokens(100, 1000, budget=1e9)
    assert shared == 0 and own == pytest.approx(1000 * 1e9 - 1000**2 / 2)


def test_orthogonalising_costs_three_products_an_iteration() -> None:
    assert newton_schulz_flop(10, 20, 1) == 2 * 10 * 20 * 10 + 2 * 10**3 + 2 * 10 * 10 * 20
    assert newton_schulz_flop(20, 10) == newton_schulz_flop(10, 20)


@pytest.mark.parametrize("law", LAWS.list())
def test_every_law_says_where_it_comes_from_and_can_be_asked(law: str) -> None:
    one = LAWS.get(law)
    assert one.id == law and one.source and one.confirmed and one.valid and re.match(r"https://", one.link)
    assert f"| `{law}` |" in GUIDE.read_text("utf-8")
    named = {name for q in one.questions for name in (*q.needs, *q.may)}
    assert named == set(one.quantities)
    for question in one.questions:
        assert all(one.quantities[name].default is None for name in question.needs)
        assert all(one.quantities[name].default is not None for name in question.may)
    needs = [frozenset(q.needs) for q in one.questions]
    assert len(set(needs)) == len(needs)
