"""The process that runs tools for the server: calls as JSON lines in, answers as JSON lines out.

It is killed where a call is cancelled or its caller has gone; the server starts another.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from windtunnel.child_processes import die_with
from windtunnel.mcp.tools import Tools


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The answer of one tool, as plain data."""
    root = question["root"]
    tools = Tools(Path(root) if root else None, question["allow_write"], question["allow_code"])
    found = getattr(tools, question["tool"])(**question["arguments"])
    answered: dict[str, Any] = found.model_dump(mode="json")
    return answered


def main() -> None:
    """Answer lines until the input ends."""
    die_with(os.getppid())
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            out.write(json.dumps(answer(json.loads(line))) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
