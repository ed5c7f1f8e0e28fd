"""How answers are drafted: `serving.speculation`. Words are vLLM's `speculative_config` where it has one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Spec, or_installed
from windtunnel.specs.model import ModelSpec

Method = Annotated[Literal["draft", "mtp", "eagle", "ngram"], or_installed("draft_methods")]


class SpeculationSpec(Spec):
    """Several tokens a step: some are drafted, one pass of the model verifies them all, a prefix of them is kept."""

    method: Method
    """What drafts: a smaller model, heads of the model itself (MTP, EAGLE), or n-grams of the prompt."""
    tokens: Count = 1
    """Drafted tokens that a step verifies, k; vLLM's `num_speculative_tokens`."""
    acceptance: float | tuple[float, ...] | None = None
    """Chance that a drafted token is kept when those before it were: one for all positions, or one for each of the k.
    Absent: what was published for the method, listed under `assumed`."""
    variation: Literal["none", "request", "step"] = "none"
    """`none`: every sequence makes the mean number of tokens. `request`: each request has an acceptance of its own.
    `step`: that, and kept tokens are drawn at every step. The last two are run by the plain loop."""
    acceptance_std: float = Field(default=0.1, ge=0, lt=0.5)
    """`request`, `step`: standard deviation of the first token's acceptance between requests (beta distribution)."""
    draft: str | ModelSpec | None = None
    """`draft`: the smaller model, a catalogue name or Hugging Face fields."""
    draft_tp: Count | None = None
    """`draft`: devices that cut it; absent: as many as cut the model itself."""
    draft_weights: Literal["bf16", "fp16", "fp8", "int8", "w4a16"] = "bf16"
    """`draft`, `eagle`: format of its weights."""

    order: Annotated[Literal["serial", "dsi", "mirror"], or_installed("draft_orders")] = "serial"
    """`serial`: draft, verify, draft again. `dsi`: several instances of the model verify while the draft goes on.
    `mirror`: the draft runs on devices of its own next to the model's last layers."""
    verifiers: Count | None = None
    """`dsi`: instances of the model that verify one sequence's tokens together; each is cut as the pool's plan says."""
    draft_device: str | None = None
    """`mirror`: device that drafts, by its catalogue id; `draft_tp` of them an instance. Absent: as the model's."""
    early_exit: float = Field(default=0.5, gt=0, lt=1)
    """`mirror`: share of the model's layers after which it names candidates."""
    reuse: float = Field(default=0.8, ge=0, le=1)
    """`mirror`: chance that what the model says was among the candidates."""

    @model_validator(mode="after")
    def _consistent(self) -> SpeculationSpec:
        problems = []
        if self.method == "draft" and not self.draft:
            problems.append(Problem("draft", "is required by method draft: the name of a smaller model"))
        for name in ("draft", "draft_tp"):
            if self.method != "draft" and getattr(self, name) is not None:
                problems.append(Problem(name, f"is not read by method {self.method}; leave it out"))
        for order, names in (("dsi", ("verifiers",)), ("mirror", ("draft_device", "early_exit", "reuse"))):
            for name in names:
                if self.order != order and name in self.model_fields_set and getattr(self, name) is not None:
                    problems.append(Problem(name, f"is read by order {order} alone; leave it out"))
        if self.order != "serial" and self.method == "ngram":
            problems.append(Problem("order", "must be serial: the host drafts", value=self.order))
        if self.order != "serial" and self.variation != "none":
            problems.append(Problem("variation", f"must be none with order {self.order}", value=self.variation))
        if self.order == "mirror" and self.method != "draft":
            problems.append(Problem("order", "mirror needs method draft: a model on devices of its own", self.order))
        if self.order == "dsi" and not self.verifiers:
            problems.append(Problem("verifiers", "is required by order dsi: instances that verify together"))
        if self.tokens > 64:
            problems.append(Problem("tokens", "must be at most 64", value=self.tokens))
        given = self.acceptance
        if isinstance(given, tuple) and len(given) != self.tokens:
            problems.append(Problem("acceptance", f"must have one value for each of {self.tokens} tokens", value=given))
        each = given if isinstance(given, tuple) else () if given is None else (given,)
        if any(not 0 <= a <= 1 for a in each):
            problems.append(Problem("acceptance", "must be from 0 to 1", value=given))
        if problems:
            raise Inconsistent(problems)
        return self
