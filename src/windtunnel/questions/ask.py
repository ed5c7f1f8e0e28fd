"""A question answered: read, made a scenario, planned, and predicted by the command that the scenario means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Listener
from windtunnel.errors import Infeasible
from windtunnel.questions.answer import answer_of
from windtunnel.questions.reading import read
from windtunnel.questions.records import Answer, Found
from windtunnel.questions.to_scenario import Asked, asked

if TYPE_CHECKING:
    from windtunnel.runs.results import RunResult

_MOST_DOUBLINGS = 12
"""Of the devices, while the fewest that fit are looked for: one node to 4,096."""
_NODES = (1, 8, 64)
"""Nodes among which the fewest devices of a deployment are looked for, one after the other."""


def ask(words: str, *, listener: Listener = SILENT) -> Answer:
    """Answer a question such as `llama3-70b on 64 h100`, or `serve llama3-8b on 2 a100 at 20 requests/s of 3k/300`.

    Args:
        words: The question. There is no language model behind it: a grammar and the catalogue read it.
        listener: Is notified of the planner's search.

    Raises:
        BadInput: words that were not read, each with the nearest reading; what is missing or does not go together.
    """
    reading = read(words)
    return answer_of(reading, _found(asked(reading), listener))


def _found(question: Asked, listener: Listener) -> Found:
    if question.command == "plan":
        result = COMMANDS.get("plan").run(question.scenario, full=False, listener=listener)
        return Found(asked=question, scenario=question.scenario, result=result)
    if question.command == "serve":
        return _served(question, listener)
    if question.devices is None:
        return _fewest(question, listener)
    return _trained(question, question.scenario, listener)


def _trained(question: Asked, scenario: dict[str, Any], listener: Listener, *, probe: bool = False) -> Found:
    """A step, or a whole run, on a plan that the planner found where the words leave it open.

    With `probe` a scenario of which no plan fits has no result.
    """
    from windtunnel.commands.open_plan import with_recommended_plan

    taken, _, _ = with_recommended_plan(scenario, report=listener.searching)
    assert isinstance(taken, dict)
    if probe and taken is scenario and question.scenario.get("plan") is None:
        return Found(asked=question, scenario=scenario, result=None)
    planned = dict(taken)
    step = COMMANDS.get("train").run(planned)
    if question.command == "train" or not step.memory_fits:
        return Found(asked=replace(question, command="train"), scenario=planned, result=step)
    result: RunResult = COMMANDS.get("run").run(planned, listener=listener)
    return Found(asked=question, scenario=planned, result=result, step=step)


def _fewest(question: Asked, listener: Listener) -> Found:
    """Training on the fewest devices on which a plan fits, and where a deadline was said, that keep it."""
    per_node = question.scenario["cluster"]["devices_per_node"]
    counts = [n for n in (1, 2, 4, 8) if n < per_node] + [per_node << n for n in range(_MOST_DOUBLINGS)]
    failed = 0
    for count in counts:
        found = _trained(question, _on(question, count, per_node), listener, probe=True)
        if found.result is not None and _does(question, found):
            return replace(found, too_few=failed)
        failed = count
    return replace(_trained(question, _on(question, counts[-1], per_node), listener), too_few=failed)


def _on(question: Asked, count: int, per_node: int) -> dict[str, Any]:
    """The scenario on a number of devices; a batch that was not said follows them."""
    width = min(count, per_node)
    cluster = question.scenario["cluster"] | {"nodes": count // width, "devices_per_node": width}
    scenario = question.scenario | {"cluster": cluster}
    if any(name == "training.global_batch" and why == "not said" for name, _, why in question.assumed):
        batch = max(count, question.scenario["training"]["global_batch"])
        scenario["training"] = scenario["training"] | {"global_batch": batch}
    return scenario


def _does(question: Asked, found: Found) -> bool:
    """Whether a number of devices is enough."""
    fits = (found.step or found.result).memory_fits
    return bool(fits and (question.deadline_days is None or found.result.days["mean"] <= question.deadline_days))


def _served(question: Asked, listener: Listener) -> Found:
    """The best deployment, simulated as `serve` does."""
    sizes = (question.scenario["cluster"]["nodes"],) if question.devices is not None else _NODES
    failed, infeasible = 0, None
    for scenario in _deployments(question, sizes):
        try:
            plan = COMMANDS.get("plan").run(scenario, full=False, listener=listener)
        except Infeasible as error:
            infeasible, cluster = infeasible or error, scenario["cluster"]
            failed = cluster["nodes"] * cluster["devices_per_node"]
            continue
        taken = {name: value for name, value in plan.scenario.items() if name != "search"}
        result = COMMANDS.get("serve").run(taken)
        few = failed if failed < result.num_devices else 0
        if infeasible is not None and not few:  # the objective that was assumed is given up
            kept = tuple(one for one in question.assumed if not one[0].startswith("serving.slo."))
            question = replace(question, assumed=kept)
            return Found(asked=question, scenario=taken, result=result, infeasible=infeasible)
        return Found(asked=question, scenario=taken, result=result, upper=plan.upper, too_few=few)
    return Found(asked=question, scenario=question.scenario, result=None, infeasible=infeasible, too_few=failed)


def _deployments(question: Asked, sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """The scenario on each number of nodes, and where an objective was assumed, at last without it."""
    for nodes in sizes:
        yield question.scenario | {"cluster": question.scenario["cluster"] | {"nodes": nodes}}
    if any(name.startswith("serving.slo.") for name, _, _ in question.assumed):
        search = question.scenario["search"] | {"objective": "tokens_per_s"}
        free = {**question.scenario["serving"], "slo": {}}
        yield question.scenario | {"serving": free, "search": search}
