"""`learning:`, algorithms that train a small task for real while the clock of a large target runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from windtunnel.specs.base import BytesPerS, Count, Named, Seconds, Spec
from windtunnel.specs.run import Amount, FailureProfile


class LearningRateSpec(Spec):
    """Learning rate of the inner optimizer over local steps."""

    peak: float = Field(gt=0, le=1e6)
    """Largest learning rate."""
    warmup_steps: int = Field(default=0, ge=0, le=10**9)
    """Steps over which the rate rises from 0."""
    decay: Literal["constant", "cosine", "linear"] = "constant"
    """How the rate falls after the warm-up."""
    final: float = Field(default=0.1, ge=0, le=1)
    """Share of the peak that is left at the last step of a decay."""


class SplitSpec(Spec):
    """How samples are given to workers; absent: every worker draws from all of them (iid)."""

    dirichlet: float | None = Field(default=None, gt=0, le=1e6)
    """Concentration of each class's law over workers: 0.1 is very uneven, 100 nearly even (Hsu et al. 2019)."""
    labels: Count | None = None
    """Classes that each worker has (McMahan et al. 2017)."""

    @model_validator(mode="after")
    def _one(self) -> SplitSpec:
        if (self.dirichlet is None) == (self.labels is None):
            raise ValueError("needs one of `dirichlet` and `labels`")
        return self


class TargetSpec(Spec):
    """What a curve has to reach; time to target is reported for each algorithm."""

    loss: float | None = Field(default=None, ge=0, le=1e9)
    """Loss whose first crossing is timed."""
    metric: float | None = Field(default=None, ge=0, le=1)
    """Of the task: accuracy …"""

    @model_validator(mode="after")
    def _one(self) -> TargetSpec:
        if (self.loss is None) == (self.metric is None):
            raise ValueError("needs one of `loss` and `metric`")
        return self


def _link_or_preset(schema: dict[str, Any]) -> None:
    """A preset's name may stand for the whole link."""
    schema["anyOf"] = [*schema.get("anyOf", []), {"enum": list(LINK_PRESETS), "type": "string"}]


LINK_PRESETS: dict[str, dict[str, str]] = {
    "wan": {"bandwidth": "1 Gb/s", "latency": "40 ms"},
    "cellular-5g": {"bandwidth": "200 Mb/s", "uplink": "20 Mb/s", "latency": "15 ms"},
    "wifi": {"bandwidth": "300 Mb/s", "latency": "3 ms", "shared": "300 Mb/s"},
    "ethernet": {"bandwidth": "1 Gb/s", "latency": "100 us"},
    "data-centre": {"bandwidth": "400 Gb/s", "latency": "5 us"},
}
"""Typical links, assumed: a site's way through the public internet to another continent's, a phone, a radio channel
that all workers share, an office switch, a server's port. A field that is given next to a preset stands for its own."""


class SiteSpec(Spec):
    """Workers that stand together: they share one way out, which is the link, and have fast links among themselves."""

    workers: Annotated[int, Field(gt=0, le=100_000)]
    """Of one site; the last site has what is left."""
    bandwidth: BytesPerS = Field(gt=0)
    """Of a worker's link inside its site, one direction."""
    latency: Seconds = 0.0
    """Seconds of an empty message inside the site."""


class WorkerLinkSpec(Spec):
    """The link between a worker and the others, or its server. One worker is one whole copy of `cluster`."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(required=[]))  # a preset fills them
    preset: Literal["wan", "cellular-5g", "wifi", "ethernet", "data-centre"] | None = None
    """Fields of a typical link, assumed; those given stand for their own. `link: wan` is short for it."""
    bandwidth: BytesPerS = Field(gt=0)
    """Rate of a worker's link in one direction: `1 Gb/s`."""
    uplink: BytesPerS | None = Field(default=None, gt=0)
    """From worker to server, where it differs."""
    latency: Seconds = 0.0
    """One way."""
    shared: BytesPerS | None = Field(default=None, gt=0)
    """Rate of what all workers' links meet in (a base station, a server's port); absent: they do not meet."""
    site: SiteSpec | None = None
    """Workers stand in sites, and the link is a site's; absent: each worker has a link of its own."""
    algorithm: Literal["fastest", "ring", "tree", "hierarchical"] = "fastest"
    """Of collectives among workers: of each message the fastest, or always the same."""
    connections: Count = 1
    """Connections that each message is spread over."""
    window_bytes: float | None = Field(default=None, gt=0, le=1e12)
    """Bytes in flight of one connection: it carries at most a window a round trip; absent: as much as the link does."""
    loss: float = Field(default=0.0, ge=0, le=0.5)
    """Share of packets that is lost: a connection carries at most 1460·√1.5 bytes over a round trip and its root
    (Mathis et al. 1997)."""
    latency_spread: float = Field(default=0.0, ge=0, le=5)
    """Standard deviation of the logarithm of latencies between pairs of workers."""
    joules_per_byte: float = Field(default=0.0, ge=0, le=1)
    """Energy of a byte on this link."""

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = {"preset": given}
        if isinstance(given, dict) and isinstance(name := given.get("preset"), str):
            fields = LINK_PRESETS.get(name, {"bandwidth": "1 Gb/s"})  # of an unknown one, the name alone is wrong
            return {**fields, **{k: v for k, v in given.items() if v is not None}}
        return given


class SpeedsSpec(Spec):
    """How workers differ in speed; absent: all are alike."""

    factors: tuple[Annotated[float, Field(gt=0, le=1e6)], ...] = ()
    """Seconds of a step of each worker over the typical one's, repeated where workers are more."""
    lognormal: float | None = Field(default=None, ge=0, le=5)
    """Standard deviation of the logarithm of workers' seconds, drawn once a worker."""
    jitter: float = Field(default=0.0, ge=0, le=5)
    """Standard deviation of the logarithm of a worker's seconds, drawn anew each round."""
    exponential: bool = False
    """Each round of a worker takes an exponential time with its mean."""
    with_data: bool = False
    """Slow workers are those with most data (Papaya's clients)."""


class AttackSpec(Spec):
    """Workers that send something else than their gradients, in every step."""

    kind: Literal["sign_flip", "random", "scaled", "label_flip", "alie"]
    """sign_flip, scaled: their gradients times −`strength` or `strength`. random: noise. label_flip: they learn turned
    round labels. alie: the honest mean less as many standard deviations as a majority covers (Baruch et al. 2019)."""
    workers: Count
    """How many, the first ones; fewer than all."""
    strength: float = Field(default=10.0, gt=0, le=1e9)
    """Factor of a gradient, or norm of the noise over that of the gradient; label_flip and alie do not read it."""


class LearningSpec(Spec):
    """Task, workers, algorithms and the link that joins workers.

    `model`, `cluster`, `training` and `plan` describe what one worker trains on its own copy of the cluster; without
    them, `step_s` and `parameters` state the target. Without either, curves run over steps and the proxy's own bytes.
    """

    task: Named = "markov-lm"
    """Small task that is trained for real (`windtunnel learn --list`)."""
    workers: Annotated[int, Field(gt=0, le=100_000)] = 8
    """Workers, each with its own part of the data."""
    steps: Annotated[int, Field(gt=0, le=10_000_000)] = 1500
    """Local steps of each worker."""
    batch: Annotated[int, Field(gt=0, le=100_000)] = 8
    """Samples of one worker's step."""
    algorithms: tuple[Named, ...] = ("data_parallel",)
    """Ids, or `{id: {knob: value}}`; an id may stand several times with different knobs."""
    inner: Named = "adamw"
    """Optimizer of a worker, where an algorithm does not bring its own."""
    lr: Annotated[float, Field(gt=0, le=1e6)] | LearningRateSpec | None = None
    """Absent: the inner optimizer's own for the task."""
    split: SplitSpec | Literal["iid"] = "iid"
    """How data are divided among workers."""
    seeds: Annotated[int, Field(gt=0, le=1000)] = 1
    """Runs with seeds from `seed` on."""
    seed: int = Field(default=1, ge=0, le=2**31)
    """Seed of everything that is drawn."""
    gate: bool = True
    """Whether runs at twice the learning rate and of one worker alone decide if the order of algorithms holds.
    They are made where there are two seeds and two algorithms or more, and about double the work."""
    evaluate_every: Count | None = None
    """Local steps between points of a curve; absent: 100 points."""
    target: TargetSpec | None = None
    """Value that counts as reached, for times and costs to it."""
    law: str | None = None
    """Published law that says the loss of a model of the target's size, next to the curves: `diloco-scaling`. The small
    task never does."""
    link: Annotated[WorkerLinkSpec | None, Field(json_schema_extra=_link_or_preset)] = None
    """Absent: messages take no time; a preset's name alone is enough: `wan`."""
    speeds: SpeedsSpec | None = None
    """How workers differ in speed; absent: not at all."""
    step_s: Annotated[Seconds, Field(gt=0)] | None = None
    """Seconds of one local step of the target; absent: predicted from `model`, `cluster` and `training`."""
    parameters: Amount | None = None
    """Parameters of the target, where no `model` says so."""
    layers: Count = 1
    """Layers of the target, where no `model` says so: parts in which messages leave during a backward."""
    step_watts: float | None = Field(default=None, ge=0, le=1e9)
    """Watts of one worker while it computes, where no `cluster` says so."""
    idle_watts: float | None = Field(default=None, ge=0, le=1e9)
    """Watts of a device that waits."""
    attack: AttackSpec | None = None
    """Workers that send something else than their gradients; absent: none."""
    failures: str | FailureProfile | None = None
    """Failures of workers: a worker that fails loses its states and joins again after its repair."""
    joins: tuple[Seconds, ...] = ()
    """When each worker joins, after the start; those not listed are there from the start."""
