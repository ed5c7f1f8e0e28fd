"""A script or a YAML file of an engine's servers, one command after the other, as one scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windtunnel.importers import server_load
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import tidy
from windtunnel.importers.server_command import Command, Starts, add_file, commands, from_yaml
from windtunnel.importers.server_fields import (
    Pool,
    Written,
    alike,
    cluster_of,
    router,
    traffic,
    written_above,
    written_pools,
)

Place = tuple[str, int | None]
"""What states something, and its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How an engine is started."""

    format: str
    title: str
    starts: Starts
    signs: frozenset[str]
    """Options that a YAML file of this engine has; a dot and what follows it do not count."""
    least_signs: int = 2
    engine: str = ""
    """Engine of a scenario; empty: the one of the format's name."""
    files: tuple[str, ...] = ("config",)
    """Options that name a YAML file next to the script."""

    def place(self, text: str) -> int | None:
        """Where a text starts this engine, or 0 for its YAML file; None for anything else."""
        if (place := self.starts.place(tidy(text))) is not None:
            return place
        made = from_yaml(text) if ":" in text and "\n" in text else None
        own = made is not None and len(self.signs & {key.split(".")[0] for key in made.values}) >= self.least_signs
        return 0 if own else None

    def read(
        self, text: str, file: str, wanted: Wanted, fill: Callable[[Launch, Pool, int], tuple[int, Place | None]]
    ) -> Launch:
        """Read every server; problems are collected in the result.

        Args:
            text: the script or YAML file.
            file: its name.
            wanted: what the user adds.
            fill: one server's fields from its options and number; returns its nodes and what states them.
        """
        launch = Launch(format=self.format, title=self.title, file=file)
        found: list[Command] = commands(text, self.starts, launch, wanted.env)
        if not found and (made := from_yaml(text)) is not None:
            names = {key.split(".")[0] for key in made.values}
            found = [made] if names & (self.signs | {"model", "model-path"}) else []
        if not found:
            launch.wrong("", f"starts {self.title} nowhere that can be read")
            return launch
        written = written_pools(text)
        found = _together(found, launch, one_by_one=not written)
        if len(found) > MOST_SERVERS:
            launch.wrong(
                "", f"starts {len(found):,} servers; at most {MOST_SERVERS} are read", line=found[0].program.line
            )
            return launch
        launch.set("serving.engine", self.engine or self.format, "the program")
        nodes = 0
        place: Place = (self.title, None)
        stated = [written_above(written, command) for command in found]
        split = {own.part for own in stated if own is not None} >= {"prefill", "decode"}
        seen: set[int] = set()
        for i, command in enumerate(found):
            number = len({key.split(".")[2] for key in launch.fields if key.startswith("serving.pools.")})
            for option in self.files:
                add_file(command, option, text, launch)
            pool = Pool(launch, command, number)
            pool.used |= {"model", "model-path"} if number else set()  # the first server's, or it is left out
            own, said = fill(launch, pool, number)
            if own > nodes:
                nodes, place = own, said or place
            comment = stated[i]
            if comment is not None and comment.line not in seen:
                seen.add(comment.line)
                _as_written(launch, pool, comment, split=split)
            pool.rest()
            alike(launch, number)
        per_node = next((own.devices for own in stated if own is not None and own.nodes > 1 and own.devices > 1), None)
        cluster_of(launch, wanted, (max(nodes, 1), *place), per_node)
        server_load.read(launch, text, wanted.env)
        router(launch, text)
        traffic(launch)
        return launch


def _as_written(launch: Launch, pool: Pool, written: Written, *, split: bool) -> None:
    """Copies of a server, and its part where a deployment is split and the command does not say it."""
    if written.copies > 1:
        launch.set(f"{pool.path}.replicas", written.copies, "the pool's own line")
    role = f"{pool.path}.role"
    if split and written.part and launch.fields.get(role, "mixed") == "mixed":
        launch.set(role, written.part, "the name of its part")


def nodes_of(pool: Pool) -> tuple[int, Place | None]:
    """Nodes of a server by `nnodes`, and what states them."""
    own = pool.number("nnodes") or 1
    return own, pool.said("nnodes") if own > 1 else None


MOST_SERVERS = 500
"""Servers of a file that run together; copies of one are counted once."""
_FOLLOWS = ("headless", "node-rank", "data-parallel-start-rank")
"""Options of a command that adds ranks to a server."""
_ROLES = ("kv-transfer-config.kv-role", "disaggregation-mode", "cache-transceiver-config.backend", "config")


def _together(found: list[Command], launch: Launch, *, one_by_one: bool) -> list[Command]:
    """The servers of a script that run together; what is left out is listed.

    Left out: another model than the first server's, ranks of a server that an earlier command starts and, `one_by_one`,
    a server on the address of an earlier one, which is another way of starting it.
    """
    taken: list[Command] = []
    others: set[tuple[str, ...]] = set()
    for command in found:
        why = ""
        if taken and any(_follows(command, option) for option in _FOLLOWS):
            why = "further ranks of the first server"
        elif taken and _names(command) not in ("", _names(taken[0])):
            why = f"another model than {_names(taken[0])}, the first server's; a scenario has one"
        elif one_by_one and _address(command) in others:
            why = "on the address of an earlier server: another way of starting it"
        if why:
            line = command.program.line or next(iter(command.lines.values()), None)
            launch.leave(launch.title, _names(command), line, why)
        else:
            taken.append(command)
            others.add(_address(command))
    return taken


def _names(command: Command) -> str:
    """The model that a command names."""
    given = command.values.get("model", command.values.get("model-path"))
    return str(given) if given not in (None, True) else command.positional[0].text if command.positional else ""


def _follows(command: Command, option: str) -> bool:
    """Whether a switch is on, or a rank is not the first."""
    value = command.values.get(option)
    return isinstance(value, int) and value > 0


def _address(command: Command) -> tuple[str, ...]:
    """Port, host and part in a split deployment."""
    return tuple(str(command.values.get(name, "")) for name in ("port", "host", *_ROLES))
