"""The shell text inside other files: the fenced blocks of Markdown pages, here-documents, scripts as people write them.

Lines keep their numbers: the text that comes out has every word on the line where the file has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[ \t]*(?P<kind>[\w+-]*)[^\n]*\n(?P<body>.*?)^[ \t]*(?P=fence)[ \t]*$", re.M | re.S
)
_OTHER_KINDS = frozenset("python py json js javascript ts typescript jsx tsx diff http html sql go rust text".split())
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_PROMPT = re.compile(r"^([ \t]*)\$[ \t]+(?=\S)", re.MULTILINE)
_HEREDOC = re.compile(
    r"(?:(?:cat|tee)\b[^\n]*?>{0,2}[ \t]*(?P<first>[\w./${}~-]+)?[ \t]*)<<-?[ \t]*['\"]?(?P<end>\w+)['\"]?"
    r"(?:[ \t]*>{1,2}[ \t]*(?P<second>\S+))?[^\n]*\n(?P<body>.*?)^[ \t]*(?P=end)[ \t]*$",
    re.M | re.S,
)


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
    return _FENCE.search(text) is not None and _HEADING.search(text) is not None


def fenced_blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page that may hold shell text or YAML."""
    text = text.replace("\r\n", "\n")
    for match in _FENCE.finditer(text):
        if match["kind"].lower() in _OTHER_KINDS:
            continue
        before = text.count("\n", 0, match.start("body"))
        headings = _HEADING.findall(_FENCE.sub("", text[: match.start()]))
        body = _PROMPT.sub(r"\1", _dedent(match["body"]))
        yield Block(before + 1, headings[-1] if headings else "", "\n" * before + body)


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


def written_files(text: str) -> dict[str, str]:
    """Name → text of the files that a script writes with a here-document."""
    found = {}
    for match in _HEREDOC.finditer(text):
        name = match["second"] or match["first"]
        if name:
            found[name.rsplit("/", 1)[-1]] = _dedent(match["body"])
    return found


def tidy(text: str) -> str:
    """A script as its author means it: continued lines with blanks or a comment behind the backslash, or one between.

    The shell ends the command there; pages and scripts in the wild are full of such lines.
    """
    text = text.replace("\r\n", "\n").replace("\u00a0", " ")
    text = re.sub(r"\\[ \t]+(#[^\n]*)?\n", "\\\\\n", text)
    return re.sub(r"(?<=\\\n)((?:[ \t]*#[^\n]*\n)+)", lambda m: "\\\n" * m.group().count("\n"), text)
