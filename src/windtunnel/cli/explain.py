"""`windtunnel explain`: why a step takes as long as it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, Overrides, Verbose, examples
from windtunnel.cli.output import draw, listener, print_json, progress
from windtunnel.cli.sources import planner_choices, read_result, scenario_source, stored_result

if TYPE_CHECKING:
    from windtunnel.commands.base import Listener
    from windtunnel.training.explanation import Explanation


def explain(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="Scenario, or a result of `train --json`.", show_default=False)
    ],
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS|TRACE|RESULT",
            help="A measured step (`14.6`, `950ms`), or a PyTorch profiler trace (.json, .json.gz) of one rank; of a "
            "server, the result of a benchmark.",
            show_default=False,
        ),
    ] = None,
    time_class: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="NAME",
            help="One class of time with its operators, e.g. gemm, `exposed tp`.",
            autocompletion=complete.time_classes,
            show_default=False,
        ),
    ] = None,
    term: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Terms or coefficients that hold this text, every factor with its source.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say why a step, or a server's iteration, takes that long.

    A chain of factors leads from the data sheet to each class of time.

    Each class is shown as work over an achieved rate, and the rate as data sheet times coefficients times what tiles,
    ramps and message starts leave. --against takes a measured step time, or a profiler's trace: settings left open are
    simulated one by one, coefficients moved within their error, and those listed that close the gap. Of a scenario with
    `serving`, each rate and coefficient is moved by 1 %: its exponent says how an iteration at the mean batch follows;
    --against a result says how far each measured figure is off, and which coefficients explain it.
    """
    from windtunnel.errors import BadInput

    data = stored_result(scenario) if scenario != "-" else None
    source = scenario if data is not None else scenario_source(scenario)
    from windtunnel.scenarios.load import is_serving

    if data is None and is_serving(source, tuple(overrides or ())):
        _serving(source, tuple(overrides or ()), (against, time_class, term), as_json)
        return
    focused = time_class is not None or term is not None
    if focused and against is not None:
        raise BadInput("--class and --term show the prediction alone: leave out --against")
    with listener("simulating") as told:
        explanation = _explanation((scenario, source, data), tuple(overrides or ()), against, told)
    if as_json:
        print_json(_document(explanation, time_class, term))
    else:
        from windtunnel.views.explain import view

        draw(view(explanation, time_class=time_class, term=term))


def _serving(source: Any, overrides: tuple[str, ...], asked: tuple[str | None, ...], as_json: bool) -> None:
    """Explain a deployment.

    Raises:
        BadInput: what only training has is asked for.
    """
    from windtunnel.commands.explanations import of_serving
    from windtunnel.errors import BadInput

    against, *words = asked
    if any(word is not None for word in words):
        raise BadInput("--class and --term are of training; a scenario with `serving` has iterations")
    if against is not None:
        _server_against(source, overrides, against, as_json)
        return
    with progress("simulating"):
        explanation = of_serving(source, overrides)
    if as_json:
        print_json(explanation.to_dict())
    else:
        from windtunnel.views.explain_serving import view

        draw(view(explanation))


def _server_against(source: Any, overrides: tuple[str, ...], against: str, as_json: bool) -> None:
    """Compare a server with the result of a benchmark, and name the coefficients that explain the difference.

    Raises:
        BadInput: the scenario is no file, or the result cannot be read.
    """
    from pathlib import Path

    from windtunnel.calibration.server_fit import fit_server
    from windtunnel.calibration.server_results import read_loads
    from windtunnel.calibration.server_text import server_dict, server_summary
    from windtunnel.cli.output import console
    from windtunnel.errors import BadInput, Problem

    if not isinstance(source, str):
        raise BadInput(Problem("--against", "needs the server's scenario as a file"))
    if not Path(against).is_file():
        rule = "must be a file of results of a benchmark, for a scenario with `serving`"
        raise BadInput(Problem("--against", rule, against))
    loads = read_loads([Path(against)], source, overrides)
    with progress("comparing") as told:
        found = fit_server(loads, Path(against).name, told)
    if as_json:
        print_json(server_dict(found))
    else:
        console().print(server_summary(found))


def _explanation(
    given: tuple[str, Any, dict[str, Any] | None], overrides: tuple[str, ...], against: str | None, told: Listener
) -> Explanation:
    """Explain a scenario, the scenario inside a stored result, or a stored result alone."""
    from windtunnel.commands.explanations import of_step
    from windtunnel.errors import BadInput
    from windtunnel.training.explanation import explain as explain_result
    from windtunnel.training.explanation import explain_source, read_against

    scenario, source, data = given
    if data is None:
        return of_step(source, overrides, listener=told, against=against)
    if overrides:
        raise BadInput(f"{scenario}: --set changes scenarios, not stored results")
    result = read_result(scenario, data)
    if result.scenario:
        chosen = planner_choices(data.get("assumed"))
        fresh = explain_source(dict(result.scenario), against=against, chosen_by_planner=chosen)
        if abs(fresh.result.step_time_s - result.step_time_s) <= 1e-9 * result.step_time_s:
            return fresh
    measured = None if against is None else read_against(against)
    if measured is not None and not isinstance(measured, float):
        raise BadInput(f"{scenario}: made by another version, so a trace cannot be compared; give the scenario")
    return explain_result(result, measured)


def _document(explanation: Explanation, time_class: str | None, term: str | None) -> dict[str, Any]:
    from windtunnel.errors import BadInput
    from windtunnel.training.explain.find_terms import NO_CHAIN, find_class, find_terms
    from windtunnel.versions import RESULT_SCHEMA

    if time_class is None and term is None:
        return explanation.to_dict()
    chain = explanation.chain
    if chain is None:
        raise BadInput(NO_CHAIN)
    if term is not None:
        return {"schema_version": RESULT_SCHEMA, "terms": [t.to_dict() for t in find_terms(chain, term, time_class)]}
    name = find_class(chain, time_class or "")
    return {
        "schema_version": RESULT_SCHEMA,
        "class": name,
        "busy_s": chain.busy_s(name),
        "exposed_s": chain.exposed[name],
        "terms": [t.to_dict() for t in chain.by_class.get(name, ())],
        "operators": [o.to_dict() for o in chain.operators if o.time_class == name],
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "explain my.yaml",
            "explain my.yaml --class gemm",
            "explain my.yaml --term scale_up",
            "explain my.yaml --against 16.2",
            "explain my.yaml --against rank0.pt.trace.json.gz",
            "explain server.yaml --against vllm-bench.json",
            "explain result.json --json",
        )
    )(explain)
