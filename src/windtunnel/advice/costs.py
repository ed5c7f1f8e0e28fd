"""What a technique costs, as the page of its module says it."""

from __future__ import annotations

import sys

from windtunnel.techniques.base import Technique

_BEGINS = "What it costs:"


def costs_of(technique: Technique) -> str:
    """The paragraph of its module that says what it costs; empty where none does."""
    module = sys.modules.get(f"windtunnel.techniques.published.{technique.id.replace('-', '_')}")
    for paragraph in (getattr(module, "__doc__", None) or "").split("\n\n"):
        text = " ".join(paragraph.split())
        if text.startswith(_BEGINS):
            return text.removeprefix(_BEGINS).strip()
    return ""
