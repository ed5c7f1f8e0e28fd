"""Shell completion of names: what the user has typed so far, to the catalogue entries that begin with it."""

from __future__ import annotations

from collections.abc import Iterable


def models(incomplete: str) -> list[str]:
    """Model names, with or without the organisation."""
    from windtunnel import catalog

    return _matching(catalog.models(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Device ids."""
    from windtunnel import catalog

    return _matching(catalog.devices(), incomplete)


def clusters(incomplete: str) -> list[str]:
    """Cluster names."""
    from windtunnel import catalog

    return _matching(catalog.clusters(), incomplete)


def techniques(incomplete: str) -> list[str]:
    """Technique ids."""
    from windtunnel.techniques import REGISTRY

    return _matching(REGISTRY.list(), incomplete)


def laws(incomplete: str) -> list[str]:
    """Ids of published scaling laws."""
    from windtunnel.laws import LAWS

    return _matching(LAWS.list(), incomplete)


def stacks(incomplete: str) -> list[str]:
    """Training frameworks and recipes."""
    from windtunnel.stacks.recipes import recipe_names
    from windtunnel.stacks.stack_files import FRAMEWORKS

    return _matching([*FRAMEWORKS, *recipe_names()], incomplete)


def papers(incomplete: str) -> list[str]:
    """Papers that have an experiment."""
    from windtunnel.cli import workshop

    return _matching(workshop.papers(), incomplete)


def launch_formats(incomplete: str) -> list[str]:
    """Formats that `import` reads."""
    from windtunnel.importers import formats
    from windtunnel.importers.traces import TRACES

    return _matching([*formats.names(), *TRACES.list()], incomplete)


def time_classes(incomplete: str) -> list[str]:
    """Classes of time."""
    names = (
        "gemm",
        "attention",
        "memory bound",
        "scan",
        "recompute",
        "optimizer",
        "host",
        "bubble",
        "slowed by overlap",
    )
    return _matching((*names, *(f"exposed {axis}" for axis in ("tp", "dp", "pp", "cp", "ep", "offload"))), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    wanted = incomplete.casefold()
    return [name for name in names if name.casefold().startswith(wanted)]
