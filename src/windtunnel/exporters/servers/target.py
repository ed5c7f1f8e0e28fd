"""What a serving target is: a writer of server commands for one engine, and the options that its version knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from windtunnel.registry import Registry

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.exporters.servers.deployed import Deployed, Pool
    from windtunnel.exporters.target import OptionList

Word = str
"""A shell word as it stands in a script: quoted already, or a variable such as `"$PORT"`."""


@dataclass(slots=True, kw_only=True)
class Server:
    """How one node of one instance of a pool is started. Scripts set `INSTANCE`, `NODE_RANK`, `LEADER` and `PORT`."""

    pool: Pool
    nodes: int
    """Nodes of one instance."""
    per_node: int
    """Devices of one instance on each node."""
    program: list[Word] = field(default_factory=list)
    """The command with what stands before its options."""
    options: list[tuple[Word, ...]] = field(default_factory=list)
    """(option, values…) in the order of writing."""
    follower: list[tuple[Word, ...]] = field(default_factory=list)
    """Options of nodes but the first of an instance, after `options`."""
    before: list[str] = field(default_factory=list)
    """Lines of shell that run before the program."""
    environment: dict[str, Word] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Name → text of files that it reads, which lie next to the script (`$HERE`)."""
    hosts: str = ""
    """Variable that names all nodes of an instance with their devices, as mpirun takes them; empty: not needed."""
    port: int = 8000
    """Port of the first instance; the others take the next ones."""
    health: str = "/health"
    start_s: int = 1800
    """How long loading weights and capturing graphs may take before a probe gives up."""


@dataclass(slots=True)
class Entry:
    """What stands before several servers, or before prefill and decode servers."""

    lines: Callable[[dict[str, list[str]]], list[str]]
    """Pool → addresses (`host:port`, which may hold shell variables) → lines of shell; the last starts it."""
    needs: str
    """The program that has to be there."""
    port: int = 8080


@dataclass(slots=True)
class ServerDraft:
    """What a target makes. Everything that it cannot express goes to `unsupported`."""

    known: OptionList
    servers: list[Server] = field(default_factory=list)
    entry: Entry | None = None
    unsupported: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lacks(self, what: str) -> None:
        """Note once that the target has no word for something."""
        if what not in self.unsupported:
            self.unsupported.append(what)

    def note(self, what: str) -> None:
        """Say something once."""
        if what not in self.notes:
            self.notes.append(what)

    def set(self, server: Server, option: str, *values: Any) -> bool:
        """Add an option, or say that this version does not take it."""
        refusal = self.known.refuses(option, *values)
        if refusal:
            self.lacks(refusal)
            return False
        server.options.append((option, *(quoted(str(value)) for value in values)))
        return True

    def first_known(self, *options: str) -> str:
        """The first of several spellings that this version has; the last when it has none."""
        return next((option for option in options if option in self.known.kinds), options[-1])


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """One serving engine that deployments are written for."""

    id: str
    title: str
    check: Callable[[Deployed, ProblemList], None]
    """Adds a problem for each number that the engine would refuse when it starts."""
    write: Callable[[Deployed, OptionList], ServerDraft]
    loads: tuple[str, ...]
    """Load generators that fit, the engine's own first."""
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Technique → options that switch it on."""


SERVER_TARGETS: Registry[ServerTarget] = Registry(
    "server_targets", package="windtunnel.exporters.servers.targets", noun="target"
)


_WORD = re.compile(r'"(?:[^"`\\$]|\$\w+|\$\{\w+\}|\$\(\([\w $+*]+\)\))*"')
"""Plain characters, variables and sums between double quotes: no command, whoever wrote the scenario."""


def quoted(text: str) -> Word:
    """A text as one shell word; what is in double quotes, with variables in it, stays what it is."""
    import shlex

    return text if _WORD.fullmatch(text) else shlex.quote(text)
