"""`windtunnel check`: predictions as a gate for CI. Conditions, and a baseline that predictions may not leave."""

from __future__ import annotations

import json
import math
import operator
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from windtunnel.cli.options import AsJson, Overrides, examples
from windtunnel.cli.output import console, note, print_json, telling
from windtunnel.files.writing import write_text

_OPERATORS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}
_CONDITION = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|<|>)\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*$")
_FLAGS = {"fits": ("memory_fits", True), "unsaturated": ("saturated", False)}
"""Conditions without a number: the figure and the value it must have."""
_FITS = "fits"
"""What is asked where no condition is: of scenarios that have memory to fit."""
_KEPT = (
    "step_time_s", "mfu", "peak_memory_reserved_bytes", "ttft_s.p99", "tpot_s.p99", "goodput_requests_per_s",
    "jct_s.mean", "makespan_s", "utilisation",
)  # fmt: skip
"""Figures that a baseline holds, as far as a scenario has them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One condition of one scenario."""

    file: str
    condition: str
    value: float | bool | None
    """What was predicted; None where the scenario has no such figure."""
    passed: bool


def check(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", help="Scenario files, or folders of them.", show_default=False)
    ],
    require: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITIONS",
            help="Conditions, e.g. 'fits, step_time_s<=16, ttft_s.p99<=1'. Without any: training scenarios must fit.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Predictions to stay close to; written where it is absent.")
    ] = None,
    tolerance: Annotated[float, typer.Option(min=0.0, help="Largest relative change against the baseline.")] = 0.02,
    update: Annotated[bool, typer.Option("--update", help="Write the baseline anew.")] = False,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Predict scenarios; exit 4 where one breaks a condition.

    A prediction that leaves the baseline counts as one too.

    A scenario with `programs` is simulated as `reason` does (figures of its best candidate), one with `serving` as
    `serve` does, one with `jobs` alone as `cluster` does, one with `learning` alone as `learn` does, every other as
    `train` does; conditions name figures of that command's --json.
    """
    from windtunnel.errors import GateFailed

    conditions = _conditions(_FITS if require is None else require)
    files = _files(paths)
    known = _baseline(baseline) if baseline is not None and baseline.exists() and not update else {}
    outcomes: list[Outcome] = []
    kept: dict[str, dict[str, float]] = {}
    with telling("predicting") as say:
        for at, file in enumerate(files):
            say(f"{file}, {at + 1} of {len(files)}")
            figures = _figures(file, tuple(overrides or ()))
            if require is None and conditions[0][0] not in figures:
                outcomes.append(Outcome(str(file), "can be predicted", None, passed=True))
            else:
                outcomes += [_judged(file, name, how, limit, figures) for name, how, limit in conditions]
            kept[str(file)] = {name: figures[name] for name in _KEPT if isinstance(figures.get(name), float)}
            outcomes += _against(file, kept[str(file)], known.get(str(file), {}), tolerance)
    if baseline is not None and (update or not baseline.exists()):
        write_text(baseline, json.dumps(kept, indent=2, sort_keys=True) + "\n")
        note(f"baseline  {baseline}: {len(kept)} scenarios")
    if as_json:
        print_json({"passed": all(x.passed for x in outcomes), "outcomes": [asdict(x) for x in outcomes]})
    else:
        for one in outcomes:
            told = "" if one.passed and one.value is None else _shown(one.value)
            console().print(f"{'ok    ' if one.passed else 'FAILED'}  {one.file}: {one.condition}{told}")
    failed = [x for x in outcomes if not x.passed]
    if failed:
        raise GateFailed(f"{len(failed)} of {len(outcomes)} conditions do not hold")


def _shown(value: float | bool | None) -> str:
    if value is None:
        return ", which this scenario does not have"
    return "" if isinstance(value, bool) else f", predicted {value:.6g}"


def _conditions(text: str) -> list[tuple[str, str, float | bool]]:
    """(figure, operator, limit) of each condition.

    Raises:
        BadInput: with every condition that cannot be read.
    """
    from windtunnel.errors import BadInput, Problem

    found: list[tuple[str, str, float | bool]] = []
    problems = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _CONDITION.match(part)
        if part in _FLAGS:
            found.append((_FLAGS[part][0], "==", _FLAGS[part][1]))
        elif match:
            found.append((match[1], match[2], float(match[3])))
        else:
            rule = f"must be {' or '.join(_FLAGS)}, or FIGURE followed by {' '.join(_OPERATORS)} and a number"
            problems.append(Problem("--require", rule, part))
    if problems:
        raise BadInput(problems)
    return found


def _files(paths: list[Path]) -> list[Path]:
    """Scenario files of all paths, folders searched one level deep.

    Raises:
        BadInput: a path does not exist or a folder holds no scenario.
    """
    from windtunnel.errors import BadInput, Problem

    files: list[Path] = []
    problems = []
    for path in paths:
        if path.is_dir():
            own = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml") and p.is_file())
            files += own
            if not own:
                problems.append(Problem("PATH", "holds no .yaml file", str(path)))
        elif path.is_file():
            files.append(path)
        else:
            problems.append(Problem("PATH", "no such file or folder", str(path)))
    if problems:
        raise BadInput(problems)
    return files


def _baseline(path: Path) -> dict[str, dict[str, float]]:
    from windtunnel.errors import BadInput, Problem
    from windtunnel.files import reading
    from windtunnel.files.parsing import json_of

    try:
        data = json_of(reading.read_text(path, "--baseline"))
    except ValueError as error:
        raise BadInput(Problem("--baseline", f"is not JSON: {error}", str(path))) from error
    if not isinstance(data, dict) or not all(isinstance(v, dict) for v in data.values()):
        raise BadInput(Problem("--baseline", "must map scenario files to figures", str(path)))
    wrong = [
        Problem(f"{file}.{name}", "must be a finite number", value, file=str(path))
        for file, figures in data.items()
        for name, value in figures.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
    ]
    if wrong:
        raise BadInput(wrong)
    return data


def _figures(file: Path, overrides: tuple[str, ...]) -> dict[str, Any]:
    """Every number and truth value of a prediction by its dotted JSON path."""
    from windtunnel import api
    from windtunnel.commands.base import Listener
    from windtunnel.commands.train import run as train
    from windtunnel.scenarios.load import load_scenario

    scenario = load_scenario(file, overrides)
    if scenario.programs is not None:
        found = api.simulate_programs(file, overrides=overrides).best
        return _flat(found.to_dict() if found is not None else {})
    if scenario.serving is not None:
        return _flat(api.simulate_serving(file, overrides=overrides).to_dict())
    if scenario.jobs is not None and scenario.training is None:
        return _flat(api.simulate_cluster(file, overrides=overrides).to_dict())
    if scenario.learning is not None and scenario.training is None:
        return _flat(api.simulate_learning(file, overrides=overrides).to_dict())
    return _flat(train(file, overrides, listener=Listener(note=note)).to_dict())


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in _flat(item, f"{path}.{key}".strip(".")).items()}
    if isinstance(value, bool):
        return {path: value}
    return {path: float(value)} if isinstance(value, int | float) else {}


def _judged(file: Path, name: str, how: str, limit: float | bool, figures: dict[str, Any]) -> Outcome:
    value = figures.get(name)
    text = name if isinstance(limit, bool) and limit else f"{name} {how} {limit:g}"
    return Outcome(str(file), text, value, value is not None and bool(_OPERATORS[how](value, limit)))


def _against(file: Path, now: dict[str, float], before: dict[str, float], tolerance: float) -> list[Outcome]:
    """Figures next to those of the baseline."""
    out = []
    for name, old in before.items():
        new = now.get(name)
        text = f"{name} within {100 * tolerance:g} % of {old:.6g}"
        held = new is not None and abs(new - old) <= tolerance * abs(old)
        out.append(Outcome(str(file), text, new, held))
    return out


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "check scenarios/ --require 'fits, step_time_s<=16'",
            "check my.yaml --require 'ttft_s.p99<=1, unsaturated'",
            "check scenarios/ --baseline predictions.json --tolerance 0.01",
        )
    )(check)
