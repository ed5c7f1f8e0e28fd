"""Entries of the catalogue as rows, for pages and programs."""

from __future__ import annotations

from typing import Any

from windtunnel.errors import BadInput, Problem

KINDS = ("models", "devices", "links", "clusters", "techniques")


def catalogue_entries(kind: str) -> list[dict[str, Any]]:
    """Rows of one kind: the id, and what tells it from others.

    Raises:
        BadInput: no such kind.
    """
    from windtunnel import catalog

    if kind not in KINDS:
        raise BadInput(Problem("kind", f"must be one of {', '.join(KINDS)}", kind))
    if kind == "techniques":
        from windtunnel.techniques import REGISTRY

        return [
            {"id": name, "family": one.family, "summary": one.summary, "status": one.status}
            for name, one in REGISTRY.items()
        ]
    if kind == "devices":
        return [{"id": name, "vendor": catalog.device(name).vendor} for name in catalog.devices()]
    return [{"id": name} for name in getattr(catalog, kind)()]
