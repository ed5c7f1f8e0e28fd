"""The shell text inside other files: the fenced blocks of Markdown pages, here-documents, scripts as people write them.

Lines keep their numbers: the text that comes out has every word on the line where the file has it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"[ \t]*(?P<fence>```+|~~~+)[ \t]*(?P<kind>[\w+-]*)")
_OTHER_KINDS = frozenset("python py json js javascript ts typescript jsx tsx diff http html sql go rust text".split())
_HEADING = re.compile(r"^#{1,6}[ \t]+([^\s#][^\n]*)$", re.MULTILINE)
_PROMPT = re.compile(r"^([ \t]*)\$[ \t]+(?=\S)", re.MULTILINE)
_HEREDOC = re.compile(r"<<-?[ \t]*['\"]?(?P<end>\w+)['\"]?(?:[ \t]*>{1,2}[ \t]*(?P<second>\S+))?")
_WRITES = re.compile(r"(?:cat|tee)\b")
_FILE_NAME = re.compile(r"[\w./${}~-]+")
_ALONE = re.compile(r"^[ \t]*(\S+)[ \t]*$", re.MULTILINE)


_SBATCH = re.compile(r"^#SBATCH[ \t]+(?:--?)([\w-]+)[= ][ \t]*(\S+)", re.MULTILINE)


def sbatch_options(text: str) -> Iterator[tuple[str, str, int]]:
    """(option, value, line) of what a script asks of Slurm: `#SBATCH --nodes=4`."""
    line, at = 1, 0
    for found in _SBATCH.finditer(text):
        line, at = line + text.count("\n", at, found.start()), found.start()
        yield found[1], found[2], line


class Ends:
    """Where a word stands alone on a line: what ends here-documents and fenced blocks, found without looking twice."""

    def __init__(self, text: str) -> None:
        self.places: dict[str, list[tuple[int, int]]] = {}
        for found in _ALONE.finditer(text):
            self.places.setdefault(found[1], []).append(found.span())

    def after(self, word: str, start: int) -> tuple[int, int] | None:
        """The first line from `start` on that is this word: where it begins and ends; None where there is none."""
        places = self.places.get(word, [])
        at = bisect_left(places, (start, start))
        return places[at] if at < len(places) else None


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    line: int
    heading: str
    text: str
    """With the page's lines: as many line breaks in front as the page has."""


def is_page(text: str, file: str) -> bool:
    """Whether a text is a Markdown page: by its name, or by a fence where a script has none."""
    if file.lower().endswith((".md", ".mdx", ".markdown")):
        return True
    return _HEADING.search(text) is not None and next(_fences(text), None) is not None


def fenced_blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page that may hold shell text or YAML."""
    text = text.replace("\r\n", "\n")
    heading, line, behind, counted = "", 0, 0, 0
    for start, body, stop, end, kind in _fences(text):
        headings = _HEADING.findall(text[behind:start])
        heading = headings[-1].rstrip(" \t#") if headings else heading
        line += text.count("\n", counted, body)
        behind, counted = end, body
        if kind.lower() not in _OTHER_KINDS:
            yield Block(line + 1, heading, "\n" * line + _PROMPT.sub(r"\1", _dedent(text[body:stop])))


def _fences(text: str) -> Iterator[tuple[int, int, int, int, str]]:
    """Of each fenced block where it starts, its body starts and stops, where it ends, and the kind of its text."""
    ends, at = Ends(text), 0
    while at < len(text):
        next_line = text.find("\n", at) + 1 or len(text) + 1
        found = _FENCE.match(text, at, next_line - 1)
        close = ends.after(found["fence"], next_line) if found else None
        if found and close:
            yield at, next_line, *close, found["kind"]
            next_line = close[1] + 1
        at = next_line


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


def written_files(text: str) -> dict[str, str]:
    """Name → text of the files that a script writes with a here-document."""
    found: dict[str, str] = {}
    ends, at = Ends(text), 0
    while (here := _HEREDOC.search(text, at)) is not None:
        begin, at = text.rfind("\n", 0, here.start()) + 1, text.find("\n", here.end()) + 1 or len(text)
        writes = _WRITES.search(text, begin, here.start())
        close = ends.after(here["end"], at) if writes else None
        if writes is None or close is None:
            continue
        words = text[writes.end() : here.start()].replace(">", " ").split()
        first = words[-1] if words and _FILE_NAME.fullmatch(words[-1]) else ""
        if name := here["second"] or first:
            found[name.rsplit("/", 1)[-1]] = _dedent(text[at : close[0]])
        at = close[1]
    return found


def tidy(text: str) -> str:
    """A script as its author means it: continued lines with blanks or a comment behind the backslash, or one between.

    The shell ends the command there; pages and scripts in the wild are full of such lines.
    """
    text = text.replace("\r\n", "\n").replace("\u00a0", " ")
    text = re.sub(r"\\[ \t]+(#[^\n]*)?\n", "\\\\\n", text)
    return re.sub(r"(?<=\\\n)((?:[ \t]*#[^\n]*\n)+)", lambda m: "\\\n" * m.group().count("\n"), text)
