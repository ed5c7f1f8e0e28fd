"""What windtunnel can be asked: one file a command, which every entry point reads.

The command line, batch, MCP, sweeps, the studio, Python and the notebook hold nothing of their own about a command:
what it needs of a scenario, how it is run (also where the scenario leaves its plan open), which figures come first, how
a sweep draws it and which view shows its result stand in its record (`windtunnel.commands.base.Command`).
"""

from __future__ import annotations

from collections.abc import Iterable

from windtunnel.commands.base import Command, InSweeps
from windtunnel.registry import Registry

COMMANDS: Registry[Command] = Registry("commands", package="windtunnel.commands", noun="command")
MEANT = ("reason", "learn", "cluster", "run", "serve", "train")
"""Command that a scenario's sections mean where none is named: the first whose own section it has."""


def meant_by(sections: Iterable[str]) -> str:
    """The command that the sections of a scenario mean."""
    held = set(sections)
    return next((id for id in MEANT if COMMANDS.get(id).own_section in held), "train")


def asked_by_name() -> tuple[str, ...]:
    """Commands that other programs may ask for by name: of one scenario, and no part of another command's result."""
    return tuple(id for id, command in COMMANDS.items() if command.scenarios == 1 and not command.part_of)


def in_sweeps(id: str) -> InSweeps:
    """What sweeps know of a command that they can compute."""
    return COMMANDS.get(id).sweep or InSweeps()


def swept() -> tuple[str, ...]:
    """Commands that a sweep can compute."""
    return tuple(id for id, command in COMMANDS.items() if command.sweep is not None)
