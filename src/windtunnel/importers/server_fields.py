"""What serving engines have in common on the way to a scenario: model, cluster, pools, stand-ins for traffic."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.program_lines import InOrder
from windtunnel.importers.server_command import Command
from windtunnel.importers.settings import Settings
from windtunnel.stacks.weight_formats import WEIGHTS, in_field, torch_dtype

_POOL = re.compile(
    r"^# pool \S+: (?P<copies>\d{1,15}) of (?P<devices>\d{1,15}) devices"
    r"(?:, (?P<part>prefill|decode))?(?:, (?P<nodes>\d{1,15}) nodes)?",
    re.MULTILINE,
)

_POLICY = InOrder(
    parts=(
        re.compile(r"vllm-router|sglang_router\.launch_router|sglang-router"),
        re.compile(r"--policy[ =](\w+)"),
    )
)
_RULES = {
    "round_robin": "round_robin",
    "random": "random",
    "power_of_two": "power_of_two",
    "cache_aware": "prefix_aware",
}
STAND_INS = {"rate_per_s": 1.0, "num_requests": 500, "input_tokens": 1024, "output_tokens": 128}
"""Traffic where the file holds none: something to run, not a prediction."""


def pool_comment(name: str, copies: int, devices: int, part: str | None = None, nodes: int = 1) -> str:
    """The comment above a server's command that says what a command cannot: how many there are, on how many devices.

    Args:
        name: of the pool.
        copies: servers that do the same work.
        devices: of each.
        part: `prefill` or `decode`, of a deployment that is split.
        nodes: of each server.
    """
    plain = re.sub(r"[^\w.-]", "-", name) or "server"
    more = (f", {part}" if part else "") + (f", {nodes} nodes" if nodes > 1 else "")
    return f"# pool {plain}: {copies} of {devices} devices{more}"


class Pool(Settings):
    """Settings of one server, which become one pool."""

    def __init__(self, launch: Launch, command: Command, number: int) -> None:
        super().__init__(launch, command.values, command.lines)
        self.path = f"serving.pools.{number}"
        self.positional = command.positional

    def field(self, field: str, value: Any, *names: str) -> None:
        """Set a field of the pool that an option decided."""
        self.put(f"{self.path}.{field}", value, *names)

    def count(self, field: str, *names: str, least: int = 1) -> int | None:
        """Put an integer into a field of the pool."""
        value = self.number(*names, least=least)
        if value is not None:
            self.field(field, value, *names)
        return value

    def dtype_of_weights(self) -> None:
        """Set the format of the weights by the option `dtype`, where no other option has set it."""
        found = in_field(torch_dtype(str(self.get("dtype"))), WEIGHTS)
        if found is not None and WEIGHTS not in self.launch.fields:
            self.put(WEIGHTS, found, "dtype")

    def share(self, field: str, *names: str) -> None:
        """Put a number between 0 and 1 into a field of the pool."""
        value = self.get(*names)
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            name, line = self.said(*names)
            self.launch.wrong(name, "must be above 0 and at most 1", value, line)
            return
        self.field(field, value, *names)

    def on(self, enable: tuple[str, ...], disable: tuple[str, ...]) -> tuple[bool, str] | None:
        """What a pair of switches says, and which of them; None when neither is given."""
        found = None
        for names, meaning in ((enable, True), (disable, False)):
            for name in names:
                value = self.get(name)
                if value is not None:
                    found = (meaning == bool(value), name)
        return found


def model_of(launch: Launch, wanted: Wanted, name: str | None, said: str, line: int | None) -> None:
    """The catalogue's model of a checkpoint's name, and the format of weights that the name says."""
    from windtunnel.catalog import released_models
    from windtunnel.catalog.checkpoints import listed_format
    from windtunnel.errors import BadInput

    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
    elif name is None or "$" in name:
        launch.wrong("--model", "is required: the command names no model that is known here")
        return
    checkpoint = name or wanted.model or ""
    if wanted.model is None:
        try:
            format = launch.checkpoint(checkpoint, said, line)
        except BadInput as error:
            launch.wrong(said, error.problems[0].rule, name, line)
            return
        if format is not None and released_models.formats(checkpoint) is None:
            launch.set("serving.precision.weights", format, f"{said}: the checkpoint's name", line)
    for kind, stored in launch.stored_formats.items():
        place = f"serving.precision.{kind}"
        if place not in launch.fields:
            launch.set(place, stored, f"quantization_config of {launch.fields.get('model.name', 'the model')}")
    released = listed_format(checkpoint)
    if released is not None and "serving.precision.weights" not in launch.fields:
        for kind, stored in released.formats.items():
            launch.assume(f"serving.precision.{kind}", stored, "as the checkpoint is published")


def cluster_of(launch: Launch, wanted: Wanted, nodes: tuple[int, str, int | None], per_node: int | None = None) -> None:
    """The cluster: from the options of the import, the nodes of the largest server, and the devices of all."""
    stated = (per_node, "devices of a pod that is one of several", None) if per_node else None
    devices = launch.cluster(wanted, nodes, stated)
    if devices is None or wanted.nodes is not None:
        return
    pools = launch.scenario().get("serving", {}).get("pools", [])
    need = sum(math.prod([pool.get("replicas", 1), *_axes(pool)]) for pool in pools)
    if need > devices:
        size = devices // int(launch.fields["cluster.nodes"])
        launch.assume("cluster.nodes", -(-need // size), f"the servers have {need} devices")


def _axes(pool: dict[str, Any]) -> list[int]:
    plan = pool.get("plan", {})
    return [int(plan.get(axis, 1)) for axis in ("tp", "pp", "dp", "cp")]


def alike(launch: Launch, number: int) -> None:
    """Fold the last pool into an equal one before it."""
    pools: list[dict[str, Any]] = [{} for _ in range(number + 1)]
    for key, value in launch.fields.items():
        if key.startswith("serving.pools."):
            place, _, name = key.removeprefix("serving.pools.").partition(".")
            pools[int(place)][name] = value
    last = pools[number]
    for i, pool in enumerate(pools[:number]):
        if {k: v for k, v in pool.items() if k != "replicas"} == {k: v for k, v in last.items() if k != "replicas"}:
            for key in [key for key in launch.fields if key.startswith(f"serving.pools.{number}.")]:
                del launch.fields[key]
            own = f"serving.pools.{i}.replicas"
            both = int(launch.fields.get(own, 1)) + int(last.get("replicas", 1))
            launch.set(own, both, "commands that are alike")
            return


@dataclass(frozen=True, slots=True)
class Written:
    """What the comment above a command says: how many there are of it, with how many devices, in which part."""

    line: int
    copies: int
    devices: int
    part: str
    nodes: int


def written_pools(text: str) -> list[Written]:
    """The comments of a script that `export` wrote, or of the containers of a YAML file."""
    found, line, counted = [], 1, 0
    for match in _POOL.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        copies, devices, nodes = int(match["copies"]), int(match["devices"]), int(match["nodes"] or 1)
        found.append(Written(line, copies, devices, match["part"] or "", nodes))
    return found


def written_above(pools: list[Written], command: Command) -> Written | None:
    """The comment above a command; None where there is none."""
    line = command.program.line or min(command.lines.values(), default=0)
    at = bisect_right(pools, line, key=lambda pool: pool.line)
    return pools[at - 1] if at else None


def router(launch: Launch, text: str) -> None:
    """The rule of vllm-router or sglang-router in front of the servers."""
    match = _POLICY.search(text)
    word = _RULES.get(match.group(1)) if match else None
    if match and word:
        launch.set("serving.router", word, f"--policy {match.group(1)}", text.count("\n", 0, match.start()) + 1)


def traffic(launch: Launch) -> None:
    """Traffic to run, where the file holds no load."""
    if any(field.startswith("serving.traffic") for field in launch.fields):
        return
    for name, value in STAND_INS.items():
        launch.assume(f"serving.traffic.{name}", value, "a stand-in: launch files hold no traffic")
