"""Problems, their text, and the exit codes."""

from __future__ import annotations

import pickle

import pytest

from windtunnel.error_records import problems_of
from windtunnel.errors import (
    MAX_SHOWN_VALUE,
    MOST_SHOWN_PROBLEMS,
    BadInput,
    GateFailed,
    Infeasible,
    Problem,
    ProblemList,
    WindtunnelError,
    nearest_name,
    printable,
    shown,
)


class Lines:
    """A source that knows one field."""

    def where(self, field: str) -> tuple[str | None, int | None]:
        return "s.yaml", 7 if field == "plan.tp" else 1


def test_exit_codes() -> None:
    kinds = (WindtunnelError, BadInput, Infeasible, GateFailed)
    assert [kind.exit_code for kind in kinds] == [1, 2, 3, 4]


def test_text_of_a_problem() -> None:
    assert str(Problem("plan.tp", "must divide 64", 3, "4", "s.yaml", 7)) == (
        "plan.tp = 3: must divide 64; did you mean '4'? (s.yaml:7)"
    )
    assert str(Problem("plan", "is required")) == "plan: is required"
    assert str(Problem("", "not valid YAML", file="s.yaml")) == "not valid YAML (s.yaml)"
    assert str(Problem("a", "r", None)) == "a = null: r"


def test_a_value_stays_on_one_line_and_short() -> None:
    assert shown("a\n  b") == "a b"
    assert shown(" ") == "' '"
    assert len(shown("x" * 1000)) == MAX_SHOWN_VALUE
    assert "\n" not in shown({"a": ["b\nc"]})


def test_problems_are_collected_and_located() -> None:
    problems = ProblemList(Lines(), prefix="plan")
    problems.raise_if_any()
    problems.add("tp", 3, "must divide 64")
    problems.add("pp", 0, "must be above 0")
    assert len(problems) == 2
    with pytest.raises(BadInput) as caught:
        problems.raise_if_any()
    found = [(p.field, p.file, p.line) for p in caught.value.problems]
    assert found == [("plan.tp", "s.yaml", 7), ("plan.pp", "s.yaml", 1)]
    assert str(caught.value).count("\n") == 1


def test_bad_input_can_be_located_later_and_keeps_what_is_known() -> None:
    found = BadInput([Problem("tp", "r"), Problem("x", "r", file="config.json", line=2)]).located(Lines(), "plan")
    places = [(p.field, p.file, p.line) for p in found.problems]
    assert places == [("plan.tp", "s.yaml", 7), ("plan.x", "config.json", 2)]


@pytest.mark.parametrize(
    "error", [BadInput([Problem("a", "r", 1, file="f", line=2)]), Infeasible("no plan", "tp 8"), GateFailed("mape 0.2")]
)
def test_errors_survive_a_process_boundary(error: WindtunnelError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_problem_as_data() -> None:
    assert "value" not in Problem("a", "r").as_dict()
    assert Problem("a", "r", None).as_dict()["value"] is None


def test_nearest_name_ignores_case_and_keeps_away_from_the_unlike() -> None:
    assert nearest_name("H100-SXM-80gb", ["h100-sxm-80gb", "a100-sxm-80gb"]) == "h100-sxm-80gb"
    assert nearest_name("zzz", ["tp", "pp"]) is None
    assert nearest_name("x", []) is None


def test_what_controls_a_terminal_becomes_an_escape() -> None:
    problem = Problem("a\x1b[2J", "must be\x07 b\u202e", "\x1b]0;x\x9b", nearest="\x08", file="f\r.yaml")
    assert str(problem) == (r"a\x1b[2J = \x1b]0;x\x9b: must be\x07 b\u202e; did you mean '\x08'? (f\r.yaml)")
    assert printable("Größe 5 µs → 3 · 10⁶\nx") == "Größe 5 µs → 3 · 10⁶\nx"


def test_the_first_problems_are_listed_and_the_rest_counted() -> None:
    error = BadInput(Problem("a", f"rule {i}") for i in range(MOST_SHOWN_PROBLEMS + 1_000))
    lines = str(error).splitlines()
    assert lines[MOST_SHOWN_PROBLEMS - 1 :] == [f"a: rule {MOST_SHOWN_PROBLEMS - 1}", "and 1,000 more problems"]
    assert len(error.problems) == MOST_SHOWN_PROBLEMS + 1_000
    records, _ = problems_of(error)
    assert [one["message"] for one in records] == [line.removeprefix("a: ") for line in lines]
    for few in (MOST_SHOWN_PROBLEMS, MOST_SHOWN_PROBLEMS + 2):
        assert len(str(BadInput(error.problems[:few])).splitlines()) == few
        assert "more" not in str(BadInput(error.problems[:few]))


def test_a_record_holds_no_long_value_and_no_control_characters() -> None:
    (record,), _ = problems_of(BadInput(Problem("\x1b", "\x07", "x" * 200_000)))
    assert (record["field"], record["message"], len(record["value"])) == (r"\x1b", r"\x07", 240)


def test_an_integer_that_cannot_be_written_has_a_text() -> None:
    assert shown(10**5000) == "a int"
