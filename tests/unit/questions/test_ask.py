"""Answers: fourteen lines, what was read first, and the result of the command for the scenario that is left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT
from windtunnel.errors import Infeasible
from windtunnel.questions.answer import _smaller, _sure, _without_objective, gauge
from windtunnel.questions.ask import _on_any_device, _surest, ask
from windtunnel.questions.reading import read
from windtunnel.questions.records import MOST_LINES, WIDTH, Found, Row, lines
from windtunnel.questions.to_scenario import asked
from windtunnel.training.results.one_line import fit_tone, fit_words

WORDS = (
    "qlora llama3-8b on a 4090",
    "train llama3-8b on 1 4090",
    "serve llama3-8b on 1 h100 at 2 requests/s of 256/32 under 50 ms tpot",
    "train llama3-8b on 8 h100 on 100B tokens in 30 days",
)


@pytest.fixture(scope="module", params=WORDS)
def answer(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """One answer of each kind."""
    return ask(request.param)


def test_an_answer_has_few_lines_of_eighty_columns(answer) -> None:  # type: ignore[no-untyped-def]
    shown = lines(answer.rows)
    assert len(shown) <= MOST_LINES
    assert max(map(len, shown)) <= WIDTH
    assert answer.rows[0].name == "read"


def test_the_result_is_that_of_the_command_for_the_scenario(answer) -> None:  # type: ignore[no-untyped-def]
    again = COMMANDS.get(answer.command).run(answer.scenario).to_dict()
    timed = ("simulated_in_s",)
    told = answer.to_dict()["result"]
    assert {k: v for k, v in told.items() if k not in timed} == {k: v for k, v in again.items() if k not in timed}


def test_what_does_not_fit_is_a_probability_and_bad() -> None:
    found = ask("train llama3-8b on 1 4090")
    assert found.verdict == "Out of memory (over 99 %)."
    assert found.rows[[row.name for row in found.rows].index("verdict")].tone == "bad"


@pytest.mark.parametrize(
    ("chance", "fits", "text", "tone"),
    [
        (0.04, False, "out of memory (96 %)", "bad"),
        (0.345, False, "probably out of memory (66 %)", "bad"),
        (0.73, True, "probably fits (73 %)", "warn"),
        (0.9, True, "probably fits (90 %)", "good"),
        (0.999, True, "fits (over 99 %)", "good"),
    ],
)
def test_words_and_colour_follow_the_probability(chance: float, fits: bool, text: str, tone: str) -> None:
    assert (fit_words(chance, fits=fits), fit_tone(chance, fits=fits)) == (text, tone)


def test_a_deployment_without_margin_is_uncertain_at_most_and_says_why() -> None:
    row = _sure(None, 0.02, "fitted", margin=False)
    assert row.text.startswith("uncertain: ") and "central prediction" in row.text and "verdict" not in row.text


def test_a_deployment_that_cannot_be_is_no_result() -> None:
    found = ask("serve llama3-70b on 2 l4")
    assert (found.result, found.exit_code) == (None, 3)
    assert found.verdict.startswith("No: ")


def test_a_gauge_is_full_at_most() -> None:
    assert gauge(40 * 2**30, 80 * 2**30).count("█") == gauge(40 * 2**30, 80 * 2**30).count("░")
    assert gauge(160 * 2**30, 80 * 2**30).count("░") == 0


def test_long_rows_end_in_an_ellipsis() -> None:
    assert lines([Row("name", "word " * 40)])[0].endswith(" …")


def test_a_deployment_on_any_device_takes_more_nodes_where_eight_devices_are_too_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def run(scenario: Any, **_: Any) -> str:
        tried.append(scenario["cluster"]["nodes"])
        if tried[-1] < 4:
            raise Infeasible("too few")
        return "ranking"

    monkeypatch.setattr("windtunnel.questions.ask.COMMANDS", {"plan": SimpleNamespace(run=run)})
    words = "cheapest way to serve llama3-70b at 20 requests/s of 3k/300"
    found = _on_any_device(asked(read(words)), SILENT)
    assert (tried, found.result, found.scenario["cluster"]["nodes"]) == ([1, 2, 4], "ranking", 4)
    assert ("cluster.devices", 32, "not said") in found.asked.assumed
    tried.clear()
    assert _on_any_device(asked(read(f"{words} on 8 gpus")), SILENT).result is None
    assert tried == [1]


def test_where_no_plan_fits_the_nearest_miss_stands_for_the_plan() -> None:
    (row,) = [row for row in ask("train llama3-8b on 1 4090 with batch 1").rows if row.name == "plan"]
    assert "none fits" in row.text and "nearest miss: " in row.text


def test_formats_that_are_apart_are_both_named() -> None:
    text = " ".join(row.text for row in ask("serve gpt-oss-20b on 1 h100 at 1 requests/s of 64/16").rows[:2])
    assert "weights bf16" in text and "experts mxfp4" in text


def test_a_search_leaves_the_deployment_behind_that_it_chose() -> None:
    """The file of `-o` answers under `serve` what the search answered."""
    found = ask("fewest h100 to serve llama3-8b at 30 requests/s of 1k/200")
    assert (found.command, found.taken is not None) == ("plan", True)
    left = yaml.safe_load(found.scenario_text())
    pool = left["serving"]["pools"][0]
    devices = pool["replicas"] * pool["plan"]["tp"]
    assert "search" not in left and devices == found.result.result.num_devices
    again = COMMANDS.get("serve").run(left)
    assert again.ttft_s.p50 == found.result.result.ttft_s.p50


def given_up(*, saturated: bool) -> str:
    """What is said of a load of 5 requests/s at which nothing keeps the assumed objective."""
    question = asked(read("serve llama3-70b on 4 h100 at 5 requests/s of 2k/300"))
    limits = tuple(one for one in question.assumed if one[0].startswith("serving.slo."))
    found = Found(asked=question, scenario=question.scenario, result=None, given_up=limits)
    return _without_objective(found, SimpleNamespace(saturated=saturated, throughput_requests_per_s=4.4))  # type: ignore[arg-type]


def test_an_assumed_objective_that_cannot_be_kept_is_named() -> None:
    assert given_up(saturated=False) == (
        "Keeps up with the load, but not within TTFT 1.00 s and TPOT 50.0 ms, which nobody asked for."
    )
    assert given_up(saturated=True) == "Falls behind: of 5 requests/s it serves 4.40."


def test_words_that_changed_nothing_stand_in_the_answer() -> None:
    rows = {row.name: row.text for row in ask("hello, our startup: does llama3-70b fit on 1 l4 to serve?").rows}
    assert rows["not used"] == "hello, startup"


def test_a_question_whether_it_fits_looks_for_a_plan_that_fits_surely(monkeypatch: pytest.MonkeyPatch) -> None:
    chances = {None: 0.55, 0.85: 0.7, 0.7: 0.97}

    def share(scenario: dict[str, Any]) -> float | None:
        found: float | None = ((scenario.get("search") or {}).get("limits") or {}).get("memory_fraction")
        return found

    def train(scenario: dict[str, Any]) -> Any:
        return SimpleNamespace(memory_fits=True, memory=SimpleNamespace(fit_probability=chances[share(scenario)]))

    monkeypatch.setattr("windtunnel.questions.ask.COMMANDS", {"train": SimpleNamespace(run=train)})
    monkeypatch.setattr(
        "windtunnel.commands.open_plan.with_recommended_plan", lambda taken, **_: (taken, (), "plan: tp 2")
    )
    question = asked(read("does llama3-8b fit on 4 h100"))
    planned, step, surer = _surest(question, question.scenario, (question.scenario, train({})), SILENT)
    assert (step.memory.fit_probability, share(planned)) == (0.97, 0.7)
    (told,) = [one for one in surer.assumed if one[0] == "search.limits.memory_fraction"]
    assert told[1:] == (0.7, "a plan that fits more surely than the fastest")
    assert _surest(question, question.scenario, (planned, step), SILENT)[1] is step
    chances |= {0.85: 0.92}
    assert share(_surest(question, question.scenario, (question.scenario, train({})), SILENT)[0]) == 0.85


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("train llama3-70b on 2 4090", ["a smaller batch", "shorter sequences", "lora or qlora"]),
        ("lora of llama3-70b on 2 4090 at 1k batch 1", ["qlora"]),
        ("qlora of llama3-70b on 2 4090 at 1k batch 1", []),
    ],
)
def test_what_would_make_it_fit_is_not_what_is_done_already(words: str, told: list[str]) -> None:
    assert list(_smaller(asked(read(words)).scenario))[1:] == told


def test_a_cache_smaller_than_the_model_s_context_is_told_with_the_verdict() -> None:
    found = ask("does serving Qwen3-32B in 4 bits fit on one RTX 5090")
    assert found.verdict.startswith("Fits. ") and "starts with max_model_len " in found.verdict
    (helps,) = [row.text for row in found.rows if row.name == "would help"]
    assert "fp8" not in helps and "4-bit" not in helps
