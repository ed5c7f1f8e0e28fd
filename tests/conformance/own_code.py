"""A program's own configuration code, from `.venv-targets`, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

INSTALLED = Path(__file__).parents[2] / ".venv-targets"


def own_code(probe: str, package: str, version: str, cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What the program's own code says of each case; skips when the program is not installed."""
    program = INSTALLED / "programs" / f"{package}-{version}"
    if not program.is_dir():
        missing = INSTALLED / "missing"
        lines = missing.read_text("utf-8").splitlines() if missing.exists() else []
        why = [line for line in lines if line.startswith((f"{package} {version}:", f"{package}:", "all:"))]
        pytest.skip(f"{package} {version} is not in .venv-targets: {' '.join(why) or 'run scripts/install-targets'}")
    given = folder / "cases.json"
    given.write_text(json.dumps(cases), encoding="utf-8")
    script = Path(__file__).parent / "probes" / f"read_{probe}.py"
    ran = subprocess.run(
        [INSTALLED / "bin" / "python", script, given],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(program)},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
    return found
