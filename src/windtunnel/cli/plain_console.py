"""A Rich console for words that others wrote: names of models, files and devices style and control nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from windtunnel.errors import printable

_SIZE = re.compile("[0-9]{1,5}")
"""Rich takes a superscript for a number too."""


class PlainConsole(Console):
    """A console that reads no markup, and writes what would control a terminal as escapes."""

    def __init__(self, width: int | None = None, *, stderr: bool = False) -> None:
        sizes = {name for name in ("COLUMNS", "LINES") if not _SIZE.fullmatch(os.environ.get(name, ""))}
        environment = {name: value for name, value in os.environ.items() if name not in sizes}
        super().__init__(highlight=False, markup=False, emoji=False, width=width, stderr=stderr, _environ=environment)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of printable text, and the console's own controls."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
