"""Scripts inside a command: what `bash -c SCRIPT` hands to another shell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from windtunnel.importers.shell import CONTINUED, Word

MOST_HANDED_OVER = 50
"""Scripts that a script and those inside it hand to a shell and that are read."""
_SHELL = re.compile(r"(?:/\S*/)?(?:ba|z|da)?sh")
_OPTION = re.compile(r"-\w*c")


def inner_script(words: Sequence[Word]) -> Word | None:
    """The script of `bash -c SCRIPT`, wherever it stands in a command, at its line; None where there is none."""
    for shell, option, script in zip(words, words[1:], words[2:], strict=False):
        if _SHELL.fullmatch(shell.text) and _OPTION.fullmatch(option.text):
            return Word(script.text.replace(CONTINUED, "\\"), script.line)
    return None
