"""A question answered: read, made a scenario, planned, and predicted by the command that the scenario means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Listener
from windtunnel.errors import Infeasible
from windtunnel.quantities import gib
from windtunnel.questions.answer import answer_of
from windtunnel.questions.comparison import labels, sides
from windtunnel.questions.reading import Reading, read
from windtunnel.questions.records import Answer, Found
from windtunnel.questions.to_scenario import Asked, asked, context_limit
from windtunnel.stacks.weight_formats import WEIGHTS, in_field

if TYPE_CHECKING:
    from windtunnel.planner.serving.plan_deployment import ServingPlan
    from windtunnel.runs.results import RunResult
    from windtunnel.training.results.training_result import TrainingResult

_LEAST_CONTEXT, _USUAL_CONTEXT = 2048, 131072
"""Tokens of the shortest context that is tried, and of the longest of a model whose limit is not known."""
_MOST_DOUBLINGS = 12
"""Of the devices, while the fewest that fit are looked for: one node to 4,096."""
_SURE, _SHARES, _FRACTION = 0.9, (0.85, 0.7), "search.limits.memory_fraction"
"""Probability from which a plan fits surely enough, and the shares of the memory in which a surer one is looked for."""
_COARSE = {"tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8, 16], "vpp": [1, 2, 4], "cp": [1, 2, 4, 8], "mbs": [1, 2, 4]}
"""Sizes of axes among which plans are looked for while the fewest devices are."""
_TIGHTER, _MOST_TIGHTER = 0.9, 12
"""Of a time to the first token: the share of it that is tried next, and how often."""
_NODES_OF_ANY = (1, 2, 4, 8)
"""Nodes of eight devices on which the best of all priced devices is looked for, one after the other."""
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
    if parts := sides(reading):
        return answer_of(reading, _compared(parts, listener))
    if "longest" in reading.all("wants"):
        return answer_of(reading, _longest(reading, listener))
    return answer_of(reading, _found(asked(reading), listener))


def _compared(parts: list[Reading], listener: Listener) -> Found:
    """The best side of a comparison, with what each gives."""
    questions = [asked(part) for part in _of_one_batch(parts)]
    found = [_found(question, listener) for question in questions]
    shown = [one.step or one.shown or one.result for one in found]
    clusters = [f"{_count(question):,} × {question.scenario['cluster']['device']}" for question in questions]
    names = [label or cluster for label, cluster in zip(labels(parts), clusters, strict=True)]
    did = [at for at, one in enumerate(shown) if one is not None and getattr(one, "memory_fits", True)]
    by, worth = _measure(questions[0], [shown[at] for at in did])
    best = max(did, key=lambda at: worth(shown[at]), default=0)
    each = tuple((name, shown[at] if at in did else None) for at, name in enumerate(names))
    return replace(found[best], each=each, best=f"{names[best]} by {by}")


def _of_one_batch(parts: list[Reading]) -> list[Reading]:
    """Sides with the same batch, the largest that their devices would get, where none was said."""
    batches = [asked(part).scenario.get("training", {}).get("global_batch", 0) for part in parts]
    said = any(name in part for part in parts for name in ("batch", "batchtokens", "accumulation"))
    if said or len(set(batches)) == 1:
        return parts
    return [part.having(batch=float(max(batches))) for part in parts]


def _count(question: Asked) -> int:
    cluster = question.scenario["cluster"]
    return int(cluster["nodes"] * cluster["devices_per_node"])


def _measure(question: Asked, results: list[Any]) -> tuple[str, Callable[[Any], float]]:
    """What a comparison ranks by, in words, and how much of it a prediction has; more is better.

    What was asked for: the price of a token where all have one; else the rate of training, of a deployment the rate
    that was looked for, or under a load that was said the seconds a token.
    """
    if question.best == "cost" and results and all(_price(one) is not None for one in results):
        return "price", lambda one: -(_price(one) or 0.0)
    if question.task != "serve":
        return "tokens/s", lambda one: float(one.tokens_per_s)
    if question.objective in ("goodput", "tokens_per_s"):
        return "requests/s", lambda one: float(one.throughput_requests_per_s)
    return "TPOT", lambda one: -float(one.tpot_s.p50)


def _price(result: Any) -> float | None:
    """US dollars a million tokens; of a deployment, of those that it generates."""
    name = "cost_per_million_tokens" if hasattr(result, "step_time_s") else "cost_per_million_output_tokens"
    found: float | None = getattr(result, name)
    return found


def _longest(reading: Reading, listener: Listener) -> Found:
    """The longest context that fits: halved from the model's own limit until it does, then refined."""
    plain = reading.without("length")
    if asked(plain).task == "serve" and not any(name in reading for name in ("users", "rate", "batch", "outrate")):
        plain = plain.having(users=1.0)
    most = context_limit(plain) or _USUAL_CONTEXT
    length, best = most, None
    while best is None and length >= _LEAST_CONTEXT:
        best = _at_length(plain, length, listener)
        length //= 2
    if best is None:
        return replace(_found(asked(plain.having(length=float(_LEAST_CONTEXT))), listener), longest=0)
    for part in (2, 4):
        longer = best.longest + most // (most // best.longest * part)
        if best.longest < most and (found := _at_length(plain, longer, listener)) is not None:
            best = found
    return best


def _at_length(reading: Reading, length: int, listener: Listener) -> Found | None:
    """What was found with a context of this length; None where it does not fit."""
    listener.say(f"a context of {length:,} tokens")
    found = _found(asked(reading.having(length=float(length))), listener)
    shown = found.step or found.shown or found.result
    fits = shown is not None and getattr(shown, "memory_fits", True)
    return replace(found, longest=length) if fits else None


def _found(question: Asked, listener: Listener) -> Found:
    if question.scenario["cluster"]["device"] == "any":
        return _on_any_device(question, listener)
    if question.task == "serve":
        return _served(question, listener)
    if question.devices is None:
        return _fewest(question, listener)
    if question.command == "plan":
        return _planned(question, question.scenario, listener)
    return _trained(question, question.scenario, listener)


def _on_any_device(question: Asked, listener: Listener) -> Found:
    """The best plan of each priced device; a deployment whose devices were not said takes more where eight are few."""
    more = question.task == "serve" and any(name == "cluster.devices" for name, _, _ in question.assumed)
    scenario, infeasible = question.scenario, None
    for nodes in _NODES_OF_ANY if more else (scenario["cluster"]["nodes"],):
        scenario = question.scenario | {"cluster": question.scenario["cluster"] | {"nodes": nodes}}
        devices = nodes * scenario["cluster"]["devices_per_node"]
        listener.say(f"{devices:,} devices")
        try:
            result = COMMANDS.get("plan").run(scenario, full=False, listener=listener)
        except Infeasible as error:
            infeasible = error
            continue
        assumed = tuple((name, devices if name == "cluster.devices" else v, why) for name, v, why in question.assumed)
        return Found(asked=replace(question, assumed=assumed), scenario=scenario, result=result)
    return Found(asked=question, scenario=scenario, result=None, infeasible=infeasible)


def _planned(question: Asked, scenario: dict[str, Any], listener: Listener) -> Found:
    """The best plan for training, with its proof."""
    try:
        result = COMMANDS.get("plan").run(scenario, full=False, listener=listener)
    except Infeasible as error:
        return Found(asked=question, scenario=scenario, result=None, infeasible=error)
    if "run" not in scenario:
        each = _each_device(question, scenario)
        return Found(asked=question, scenario=scenario, result=result, shown=result.best, each=each)
    _, run, spares = _with_spares(result.scenario)
    question = replace(question, assumed=(*question.assumed, *spares))
    return Found(asked=question, scenario=scenario, result=result, shown=run, step=result.best)


def _held(question: Asked, listener: Listener) -> str:
    """Whether the same devices hold the model to serve it, in words."""
    traffic = {"rate_per_s": 0.1, "num_requests": 50, "input_tokens": 1024, "output_tokens": 128}
    weights = in_field(question.scenario["training"].get("precision"), WEIGHTS)
    serving: dict[str, Any] = {"traffic": traffic}
    if weights not in (None, "bf16", "fp16"):
        serving["precision"] = {"weights": weights}
    scenario = {name: question.scenario[name] for name in ("model", "cluster")}
    scenario |= {"serving": serving, "search": {"target": "serving", "space": {"rate_per_s": [0.1]}}}
    try:
        plan = COMMANDS.get("plan").run(scenario, full=False, listener=listener)
    except Infeasible:
        return "does not fit either"
    devices, sizes = plan.result.num_devices, plan.result.capacity
    return f"fits on {devices:,} of them, weights {gib(sizes['weights_bytes'])} a device"


def _each_device(question: Asked, scenario: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Of a comparison of devices, the best on each alone; None where nothing is feasible."""
    space = scenario.get("search", {}).get("space", {})
    out: list[tuple[str, Any]] = []
    for device in space.get("device", ()):
        own = {name: values for name, values in space.items() if name != "device"}
        alone = scenario | {
            "cluster": scenario["cluster"] | {"device": device},
            "search": scenario["search"] | {"space": own},
        }
        try:
            found = COMMANDS.get("plan").run(alone, full=False)
        except Infeasible:
            out.append((device, None))
            continue
        out.append((device, found.best if question.task != "serve" else found.result))
    return tuple(out)


def _with_spares(scenario: dict[str, Any]) -> tuple[dict[str, Any], RunResult, tuple[tuple[str, Any, str], ...]]:
    """A whole run with the number of hot spares that costs least, or takes least time where nothing has a price."""
    result = COMMANDS.get("run").run(scenario)
    if "spares" in scenario["run"].get("recovery", {}):
        return scenario, result, ()
    curve = [one for one in result.spares_curve if one["days"] is not None]
    best = min(curve, key=lambda one: one["days"] if one.get("cost") is None else one["cost"], default=None)
    if best is None or best["spares"] == result.spares:
        return scenario, result, ()
    run = scenario["run"] | {"recovery": {**scenario["run"].get("recovery", {}), "spares": best["spares"]}}
    spared = scenario | {"run": run}
    return spared, COMMANDS.get("run").run(spared), (("run.recovery.spares", best["spares"], "least cost"),)


def _trained(question: Asked, scenario: dict[str, Any], listener: Listener) -> Found:
    """A step, or a whole run, on a plan that the planner found where the words leave it open."""
    from windtunnel.commands.open_plan import with_recommended_plan

    taken, _, sentence = with_recommended_plan(scenario, report=listener.searching)
    assert isinstance(taken, dict)
    planned = dict(taken)
    step = COMMANDS.get("train").run(planned)
    if question.command == "fit":
        planned, step, question = _surest(question, scenario, (planned, step), listener)
        fit = COMMANDS.get("fit").run(planned)
        served = _held(question, listener) if question.task_assumed else ""
        no_plan = "" if step.memory_fits else sentence.removeprefix("plan: ")
        return Found(asked=question, scenario=planned, result=fit, shown=step, served=served, no_plan=no_plan)
    if question.command == "train" or not step.memory_fits:
        no_plan = "" if step.memory_fits else sentence.removeprefix("plan: ")
        return Found(asked=replace(question, command="train"), scenario=planned, result=step, no_plan=no_plan)
    planned, result, spares = _with_spares(planned)
    question = replace(question, assumed=(*question.assumed, *spares))
    return Found(asked=question, scenario=planned, result=result, step=step)


def _surest(
    question: Asked, scenario: dict[str, Any], fastest: tuple[dict[str, Any], TrainingResult], listener: Listener
) -> tuple[dict[str, Any], TrainingResult, Asked]:
    """Of a question whether something fits, a plan that fits more surely than the fastest one, where there is one."""
    from windtunnel.commands.open_plan import with_recommended_plan

    planned, step = fastest
    limits = (scenario.get("search") or {}).get("limits") or {}
    chance = step.memory.fit_probability
    if chance is None or chance >= _SURE or not step.memory_fits or "memory_fraction" in limits:
        return planned, step, question
    for share in _SHARES:
        search = {**(scenario.get("search") or {}), "limits": limits | {"memory_fraction": share}}
        taken, _, sentence = with_recommended_plan(scenario | {"search": search}, report=listener.searching)
        if not sentence:
            break
        other = COMMANDS.get("train").run(taken)
        if other.memory_fits and (other.memory.fit_probability or 0.0) > chance:
            assert isinstance(taken, dict)
            planned, step, chance = dict(taken), other, other.memory.fit_probability or 0.0
            why = "a plan that fits more surely than the fastest"
            assumed = [one for one in question.assumed if one[0] != _FRACTION]
            question = replace(question, assumed=(*assumed, (_FRACTION, share, why)))
        if chance >= _SURE:
            break
    return planned, step, question


def _fewest(question: Asked, listener: Listener) -> Found:
    """Training on the fewest devices on which a plan fits and, where a deadline was said, that keep it."""
    per_node = question.scenario["cluster"]["devices_per_node"]
    counts = [n for n in (1, 2, 4, 8) if n < per_node] + [per_node << n for n in range(_MOST_DOUBLINGS)]
    failed, last = 0, None
    for count in counts:
        listener.say(f"{count:,} devices")
        last = _planned(question, _on(question, count, per_node), listener)
        if last.result is not None and _in_time(question, last):
            return replace(last, too_few=failed)
        failed = count
    assert last is not None
    return replace(last, too_few=failed)


def _on(question: Asked, count: int, per_node: int) -> dict[str, Any]:
    """The scenario on a number of devices; a batch that was not said follows them."""
    width = min(count, per_node)
    cluster = question.scenario["cluster"] | {"nodes": count // width, "devices_per_node": width}
    scenario = question.scenario | {"cluster": cluster}
    if any(name == "training.global_batch" and why == "not said" for name, _, why in question.assumed):
        batch = max(count, question.scenario["training"]["global_batch"])
        scenario["training"] = scenario["training"] | {"global_batch": batch}
    space = {name: sizes for name, sizes in _COARSE.items() if name not in scenario.get("plan", {})}
    scenario["search"] = {"space": space} | scenario.get("search", {})
    return scenario


def _in_time(question: Asked, found: Found) -> bool:
    """Whether a run keeps the deadline, where one was said."""
    return question.deadline_days is None or bool(found.shown.days["mean"] <= question.deadline_days)


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
        if question.best == "ttft":
            scenario, plan = _lowest_ttft(scenario, plan, listener)
        found = _deployed(question, scenario, plan)
        few = failed if failed < found.shown.num_devices else 0
        if infeasible is not None and not few:  # the objective that was assumed is given up
            kept = tuple(one for one in question.assumed if not one[0].startswith("serving.slo."))
            given_up = tuple(one for one in question.assumed if one not in kept)
            return replace(found, asked=replace(found.asked, assumed=kept), infeasible=infeasible, given_up=given_up)
        return replace(found, too_few=few)
    return Found(asked=question, scenario=question.scenario, result=None, infeasible=infeasible, too_few=failed)


def _deployed(question: Asked, scenario: dict[str, Any], plan: ServingPlan) -> Found:
    """What a search for a deployment found, as the plan itself or as `serve` predicts it."""
    if question.command == "plan":
        each = _each_device(question, scenario)
        taken = {name: value for name, value in plan.scenario.items() if name != "search"}
        return Found(
            asked=question, scenario=scenario, result=plan, shown=plan.result, upper=plan.upper, each=each, taken=taken,
            central_devices=None if plan.ends is None else plan.ends.central_devices,
        )  # fmt: skip
    taken = {name: value for name, value in plan.scenario.items() if name != "search"}
    result = COMMANDS.get("serve").run(taken)
    return Found(asked=question, scenario=taken, result=result, shown=result, upper=plan.upper)


def _lowest_ttft(scenario: dict[str, Any], plan: ServingPlan, listener: Listener) -> tuple[dict[str, Any], ServingPlan]:
    """The deployment of the shortest time to the first token: the objective is tightened until none keeps it."""
    for _ in range(_MOST_TIGHTER):
        slo = scenario["serving"].get("slo", {}) | {"ttft_s": _TIGHTER * plan.result.ttft_s.p90}
        tighter = scenario | {"serving": scenario["serving"] | {"slo": slo}}
        try:
            plan = COMMANDS.get("plan").run(tighter, full=False, listener=listener)
        except Infeasible:
            break
        scenario = tighter
    return scenario, plan


def _deployments(question: Asked, sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """The scenario on each number of nodes, and where an objective was assumed, at last without it."""
    for nodes in sizes:
        yield question.scenario | {"cluster": question.scenario["cluster"] | {"nodes": nodes}}
    if any(name.startswith("serving.slo.") for name, _, _ in question.assumed):
        search = question.scenario["search"] | {"objective": "tokens_per_s"}
        free = {**question.scenario["serving"], "slo": {}}
        yield question.scenario | {"serving": free, "search": search}
