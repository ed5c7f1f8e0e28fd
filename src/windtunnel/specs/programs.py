"""`programs:`, tasks that are graphs of model calls: what `windtunnel reason` runs strategies of inference on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Named, Seconds, Spec
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.population import Share
from windtunnel.specs.serving import ServingPlan

Usd = Annotated[float, Field(ge=0, le=1e9)]


def _or_list(schema: dict[str, Any]) -> None:
    """Several values may stand for one."""
    forms = schema.pop("anyOf")
    schema["anyOf"] = [*forms, {"type": "array", "items": forms[0]}]


def _or_auto(schema: dict[str, Any]) -> None:
    """A word may stand for the list."""
    schema["anyOf"] = [{"items": schema.pop("items"), "type": schema.pop("type")}, {"enum": ["auto", "planner"]}]


Separation = Annotated[float, Field(ge=0, le=20)]


class ToolSpec(Spec):
    """A kind of tools that programs call: a search index, a sandbox, a database."""

    seconds: Seconds = Field(gt=0)
    """Mean time of service."""
    distribution: Literal["fixed", "exponential"] = "exponential"
    """How a call's seconds are distributed."""
    concurrency: Count | None = None
    """How many run at once; further ones wait their turn. Absent: there is always room."""
    result_tokens: int | Lengths = Field(default=0)
    """Tokens that a result adds to the next prompt."""
    true_accept: Share | None = None
    """Share of right attempts that it accepts, where a graph has it judge one (tests, a proof checker); absent: all."""
    false_accept: Share | None = None
    """Share of wrong attempts that it accepts; absent: none."""


class ServedModel(Spec):
    """A model on instances of its own. What is absent is as the scenario has it."""

    model: str = Field(min_length=1)
    """Catalogue id, or a `config.json` next to the scenario."""
    cluster: str | ClusterRef = ""
    """Devices of its own: a cluster's catalogue id, or what `cluster` of a scenario holds; absent: the scenario's."""
    plan: ServingPlan | None = None
    """How one instance is spread over devices; absent: the least tp that holds the model."""
    replicas: Count | None = None
    """Absent: one of a verifier or a role; of a model that answers as many as the cluster's devices hold next to those,
    under `rate_per_s` no more of these than the rate keeps busy for `programs.busy` of the time."""


class VerifierSpec(ServedModel):
    """What scores answers: a reward model, a judge or a verifier that reasons, on instances of its own."""

    model: str = ""
    """Absent: the model that answered scores, on its own instances."""
    input_tokens: int | Lengths = 0
    """Tokens of its instructions next to the problem and the answer that it reads."""
    output_tokens: int | Lengths = 1
    """Tokens of a score: 1 for a reward model's head, more for one that reasons."""
    separation: Separation | None = None
    """Standard deviations between mean scores of right and of wrong answers; absent: assumed."""
    true_accept: Share | None = None
    """Share of right answers that it accepts."""
    false_accept: Share | None = None
    """Share of wrong answers that it accepts."""


class ApiPriceSpec(Spec):
    """What a provider asks for the same tokens, in USD per million."""

    input: Usd
    """Of prompt tokens."""
    output: Usd
    """Of generated tokens."""
    cached_input: Usd | None = None
    """Of prompt tokens that the provider finds in its cache; absent: as `input`."""


class ProgramsSpec(Spec):
    """Tasks of several model calls, and the strategies that are compared on them."""

    strategy: Named | None = None
    """How a problem is worked on: a strategy's id, or an id with its knobs; a knob may list several values."""
    strategies: tuple[Named, ...] = ()
    """Several of them."""
    problems: Count = 200
    """Programs of a simulation."""
    rate_per_s: float | None = Field(default=None, ge=1e-9, le=1e9, json_schema_extra=_or_list)
    """Problems that come in a second (Poisson). A list is compared."""
    busy: float = Field(default=0.8, gt=0, le=1)
    """Under `rate_per_s`, of instances whose number nobody states: problems that come over problems that they could
    do."""
    concurrency: Annotated[Count | None, Field(json_schema_extra=_or_list)] = None
    """Closed loop: this many problems are worked on; the next begins when one ends. A list is compared."""
    loads: tuple[Annotated[float, Field(ge=1e-9, le=1e9)], ...] = ()
    """Values of `concurrency`, or of `rate_per_s`, that are compared: what a list there stands for."""
    offline: bool = False
    """All problems are there at the start."""
    input_tokens: Count | Lengths = Lengths(distribution="lognormal", mean=200.0, cv=0.5)
    """Tokens of a problem."""
    output_tokens: Count | Lengths | None = None
    """Tokens of one attempt; absent: `population.lengths`, else assumed."""
    system_tokens: int = Field(default=0, ge=0, le=10**8)
    """First tokens that all prompts share."""
    models: tuple[ServedModel, ...] = ()
    """Models to choose from; absent: the scenario's own."""
    plans: Annotated[tuple[ServingPlan, ...], Field(json_schema_extra=_or_auto)] = ()
    """Plans of one instance to choose from, for every model that names none; `auto`: every tensor parallelism that is a
    power of two within a scale-up domain; `planner`: what the serving planner finds cheapest for the calls of each
    strategy. Absent: what `serving` or `plan` says, else the least that holds it."""
    plans_by: Literal["", "auto", "planner", "auto_of_list"] = ""
    """What a word under `plans` stands for."""
    verifier: VerifierSpec | None = None
    """Model that scores answers; absent: strategies that need one are refused."""
    roles: dict[str, ServedModel] = {}
    """Further models on instances of their own, for nodes of a graph: a planner, a small model for easy steps."""
    tools: dict[str, ToolSpec] = {}
    """Tools by name."""
    pause: Literal["evict", "hold", "drop"] = "evict"
    """KV blocks of a call whose program waits for a tool: evicted when others need room, held, or dropped at once."""
    hold_s: Seconds | None = Field(default=None, gt=0)
    """`pause: hold`: for how long at most (a time to live); absent: until the next call."""
    deadline_s: Seconds | None = Field(default=None, gt=0)
    """Objective of a whole problem."""
    deadline_share: Share = 0.95
    """Share of problems that must keep it: the answer to how many at once a deployment carries."""
    api_price: ApiPriceSpec | None = None
    """A provider's price: above how many tokens a day own devices are cheaper."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Seed of all draws."""

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, data: Any) -> Any:
        """A list of loads stands for `loads`, with the first in its place; a word under `plans` for `plans_by`."""
        if not isinstance(data, dict):
            return data
        if data.get("plans") in ("auto", "planner"):
            data = {**data, "plans": [], "plans_by": data["plans"]}
        for name in ("rate_per_s", "concurrency"):
            value = data.get(name)
            if not isinstance(value, list | tuple):
                continue
            wrong = [(f"{name}[{i}]", one) for i, one in enumerate(value) if not _is_load(one)]
            if wrong or not value:
                least = [Problem(name, "must list at least one value", list(value))]
                rule = "must be a number from 1e-9 to 1e9"
                raise Inconsistent([Problem(field, rule, one) for field, one in wrong] or least)
            data = {**data, name: value[0], "loads": list(value)}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> ProgramsSpec:
        problems = []
        for field, one in self.asked:
            if isinstance(one, dict) and len(one) != 1:
                rule = "must be one strategy: its id, or {id: {knob: value}}; write several as entries of strategies"
                problems.append(Problem(field, rule, ", ".join(one) or "{}"))
        if self.strategy is None and not self.strategies:
            problems.append(Problem("strategy", "or strategies is required; `windtunnel reason --list` names them"))
        if self.strategy is not None and self.strategies:
            problems.append(Problem("strategy", "and strategies exclude each other"))
        ways = [n for n in ("rate_per_s", "concurrency") if getattr(self, n) is not None]
        ways += ["offline"] if self.offline else []
        if len(ways) > 1:
            problems.append(Problem(ways[0], f"and {ways[1]} exclude each other"))
        if not ways:
            problems.append(Problem("rate_per_s", "or concurrency, or offline: true, is required"))
        if self.loads and self.offline:
            problems.append(Problem("loads", "goes with rate_per_s or concurrency", list(self.loads)))
        for load in self.loads if self.concurrency is not None else ():
            if load != int(load):
                problems.append(Problem("loads", "must be whole numbers with concurrency", load))
        if len(set(self.loads)) < len(self.loads):
            problems.append(Problem("loads", "holds a value twice", list(self.loads)))
        if "deadline_share" in self.model_fields_set and self.deadline_s is None:
            problems.append(Problem("deadline_share", "goes with deadline_s", self.deadline_share))
        if self.hold_s is not None and self.pause != "hold":
            problems.append(Problem("hold_s", "goes with pause: hold", self.hold_s))
        if self.verifier is not None:
            own = self.verifier
            if (own.true_accept is None) != (own.false_accept is None):
                missing = "true_accept" if own.true_accept is None else "false_accept"
                problems.append(Problem(f"verifier.{missing}", "goes with the other rate: give both"))
            if not own.model and (own.cluster or own.plan or own.replicas):
                problems.append(Problem("verifier.model", "is required by cluster, plan and replicas of a verifier"))
        for name in ("answers", "verifier"):
            if name in self.roles:
                problems.append(Problem(f"roles.{name}", "is taken: programs has it already"))
        for name, tool in self.tools.items():
            tokens = tool.result_tokens
            if isinstance(tokens, int) and tokens < 0:
                problems.append(Problem(f"tools.{name}.result_tokens", "must not be negative", tokens))
        if self.verifier is not None:
            for name, least in (("input_tokens", 0), ("output_tokens", 1)):
                tokens = getattr(self.verifier, name)
                if isinstance(tokens, int) and tokens < least:
                    problems.append(Problem(f"verifier.{name}", f"must be at least {least}", tokens))
        names = [m.model for m in self.models]
        for i, name in enumerate(names):
            if names.index(name) < i and self.models[i] in self.models[:i]:
                problems.append(Problem(f"models[{i}]", "is given twice", name))
        if problems:
            raise Inconsistent(problems)
        return self

    @property
    def asked(self) -> tuple[tuple[str, Named], ...]:
        """Strategies with the field that names each."""
        if self.strategy is not None:
            return (("strategy", self.strategy),)
        return tuple((f"strategies[{i}]", one) for i, one in enumerate(self.strategies))

    def at(self, load: float | None) -> ProgramsSpec:
        """The same at one of its loads; None: as it is."""
        if load is None:
            return self
        changed: dict[str, Any] = {"concurrency": int(load)} if self.concurrency else {"rate_per_s": load}
        return self.model_copy(update={**changed, "loads": ()})


def _is_load(value: Any, *, whole: bool = False) -> bool:
    """Whether a value can be a load: a number from 1e-9 to 1e9."""
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    return fits and 1e-9 <= value <= 1e9


def traffic_of(section: Any) -> dict[str, Any] | None:
    """`serving.traffic` that stands for a section `programs`, as it was read; None where it is no mapping.

    A serving section needs traffic; with programs it is theirs, and only how problems arrive is in it.
    """
    if not isinstance(section, dict):
        return None
    known = {n: section[n] for n in ("rate_per_s", "concurrency", "offline", "seed") if section.get(n) is not None}
    known |= {n: v[0] for n, v in known.items() if isinstance(v, list | tuple) and v}
    for name in ("rate_per_s", "concurrency"):  # of what is no load, `programs` complains itself
        if name in known and not _is_load(known[name], whole=name == "concurrency"):
            del known[name]
    if not {"rate_per_s", "concurrency", "offline"} & set(known):
        known["offline"] = True  # of a section that says nothing, `programs` complains itself
    problems = section.get("problems", 200)
    problems = problems if _is_load(problems, whole=True) else 200
    return {**known, "num_requests": problems, "input_tokens": 1, "output_tokens": 1}
