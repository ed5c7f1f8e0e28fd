"""Long work in processes of its own, which can be asked and cancelled."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from windtunnel.errors import BadInput, Problem
from windtunnel.files.scope import Scope

MOST_JOBS = 4
"""Jobs that run at once."""
MOST_REMEMBERED = 50
"""Jobs that have ended and can still be asked."""


@dataclass(slots=True)
class Running:
    """One job."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    told: IO[bytes]
    verb: str
    given: Any = ()
    """What the caller sent: values out of files are not repeated to him."""
    cancelled: bool = False
    held: int | None = None
    """End of a pipe: the job ends where it closes, with the server if nothing else."""

    def state(self) -> str:
        """running, done, failed or cancelled."""
        if self.cancelled:
            return "cancelled"
        code = self.process.poll()
        return "running" if code is None else "done" if code == 0 else "failed"

    def close(self) -> None:
        """Let go of what it has printed."""
        self.output.close()
        self.told.close()
        if self.held is not None:
            os.close(self.held)
            self.held = None

    def words(self) -> str:
        """Last line that it has written to standard error."""
        self.told.seek(0)
        lines = self.told.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def result(self) -> dict[str, Any]:
        """What it has printed; empty where that is no JSON."""
        self.output.seek(0)
        try:
            data = json.loads(self.output.read().decode("utf-8", "replace") or "{}")
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {"rows": data}


@dataclass(slots=True)
class Jobs:
    """Jobs of one server; they end with it."""

    known: dict[str, Running] = field(default_factory=dict)
    folder: str | None = None
    """Folder for temporary files of what the server starts, which goes with the server."""

    def start(self, verb: str, words: list[str], scenario: dict[str, Any], folder: Path | None, scope: Scope) -> str:
        """Start a command of `windtunnel` and return its id.

        Args:
            verb: the command.
            words: its options.
            scenario: fields of the scenario, which it reads from standard input.
            folder: folder that paths of the scenario are relative to.
            scope: what it may read, write and run.

        Raises:
            BadInput: as many jobs as may run are running.
        """
        if sum(job.state() == "running" for job in self.known.values()) >= MOST_JOBS:
            raise BadInput(Problem("", f"{MOST_JOBS} jobs are running; wait for one, or cancel it"))
        over = [one for one, job in self.known.items() if job.state() != "running"]
        for one in over[:-MOST_REMEMBERED]:
            self.known.pop(one).close()
        output, told = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        command, ends, held = ["windtunnel"], list[int](), None
        if os.name == "posix":
            ends = list(os.pipe())
            command, held = ["windtunnel.mcp.job", str(ends[0])], ends[1]
        with tempfile.TemporaryFile() as given:
            given.write(json.dumps(scenario).encode())
            given.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", *command, verb, "-", *words, "--json"],
                stdin=given,
                stdout=output,
                stderr=told,
                cwd=folder,
                env=scope.environment() | ({"TMPDIR": self.folder} if self.folder else {}),
                start_new_session=True,
                pass_fds=tuple(ends[:1]),
            )
        if ends:
            os.close(ends[0])
        name = secrets.token_hex(4)
        self.known[name] = Running(process, output, told, verb, [scenario, words], held=held)
        return name

    def cancel(self, name: str) -> None:
        """Stop a job: asked first, so that a sweep keeps its rows, then killed."""
        job = self.known[name]
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGINT)
            try:
                job.process.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                os.killpg(job.process.pid, signal.SIGKILL)
                job.process.wait()
            job.cancelled = True

    def close(self) -> None:
        """Cancel everything."""
        for name, job in self.known.items():
            self.cancel(name)
            job.close()
        self.known.clear()
