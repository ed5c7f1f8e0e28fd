"""Lines of a script that start a program with options, found in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InOrder:
    """Patterns that follow each other on a line: a launcher, its script, an option.

    One regular expression with gaps between them tries each launcher with the whole line behind it; this looks for each
    pattern behind the one before, so that the work grows with the length of the text.
    """

    parts: tuple[re.Pattern[str], ...]
    later: re.Pattern[str] | None = None
    """What has to follow behind the last part."""
    otherwise: re.Pattern[str] | None = None
    """What starts the program by itself."""
    across: bool = False
    """Whether line breaks count as blanks; else a line ends at a break that no backslash continues."""

    def search(self, text: str) -> re.Match[str] | None:
        """The last of the parts on the first line that has all of them; None when no line does."""
        if self.otherwise is not None and (found := self.otherwise.search(text)) is not None:
            return found
        for begin, end in [(0, len(text))] if self.across else _lines(text):
            match, at = None, begin
            for part in self.parts:
                match = part.search(text, at, end)
                if match is None:
                    break
                at = match.end()
            if match is not None and (self.later is None or self.later.search(text, at, end)):
                return match
        return None


Program = re.Pattern[str] | InOrder
"""What starts a program: a pattern of words, or several in their order."""


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Where lines begin and end, continued ones as one."""
    begin = at = 0
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        if not text[at:stop].rstrip().endswith("\\") or stop == len(text):
            yield begin, stop
            begin = stop + 1
        at = stop + 1
    if begin < len(text):
        yield begin, len(text)
