"""A script or a YAML file of an engine's servers, one command after the other, as one scenario."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from windtunnel.importers import server_load
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_command import Command, beside, commands, from_yaml
from windtunnel.importers.server_fields import Pool, alike, cluster_of, router, traffic, written_copies

Place = tuple[str, int | None]
"""What said something, and its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How an engine is started."""

    format: str
    title: str
    patterns: tuple[re.Pattern[str], ...]
    signs: frozenset[str]
    """Options that a YAML file of this engine has; a dot and what follows it do not count."""
    least_signs: int = 2
    short: Mapping[str, str] = field(default_factory=dict)
    """Short option → the long one."""
    files: tuple[str, ...] = ("config",)
    """Options that name a YAML file beside the script."""

    def starts(self, text: str) -> bool:
        """Whether a text starts this engine, or is its YAML file."""
        if any(pattern.search(text) for pattern in self.patterns):
            return True
        made = from_yaml(text) if ":" in text and "\n" in text else None
        return made is not None and len(self.signs & {key.split(".")[0] for key in made.values}) >= self.least_signs

    def read(
        self, text: str, file: str, wanted: Wanted, fill: Callable[[Launch, Pool, int], tuple[int, Place | None]]
    ) -> Launch:
        """Read every server; problems are collected in the result.

        Args:
            text: the script or YAML file.
            file: its name.
            wanted: what the user adds.
            fill: one server's fields from its options and number; returns its nodes and what said so.
        """
        launch = Launch(format=self.format, title=self.title, file=file)
        found: list[Command] = commands(text, self.patterns, self.short, launch, wanted.env)
        if not found and (made := from_yaml(text)) is not None:
            found = [made]
        launch.set("serving.engine", self.format, "the program")
        nodes = 0
        place: Place = (self.title, None)
        copies = written_copies(text, len(found))
        for i, command in enumerate(found):
            number = len({key.split(".")[2] for key in launch.fields if key.startswith("serving.pools.")})
            for option in self.files:
                beside(command, option, file, launch)
            pool = Pool(launch, command, number)
            own, said = fill(launch, pool, number)
            if own > nodes:
                nodes, place = own, said or place
            if copies and copies[i] > 1:
                launch.set(f"{pool.path}.replicas", copies[i], "the pool's own line")
            pool.rest()
            alike(launch, number)
        cluster_of(launch, wanted, max(nodes, 1), *place)
        server_load.read(launch, text, wanted.env)
        router(launch, text)
        traffic(launch)
        return launch


def nodes_of(pool: Pool) -> tuple[int, Place | None]:
    """Nodes of a server by `nnodes`, and what said so."""
    own = pool.number("nnodes") or 1
    return own, pool.said("nnodes") if own > 1 else None
