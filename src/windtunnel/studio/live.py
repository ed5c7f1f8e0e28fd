"""Processes that predict: one that is always warm and answers the latest edit, and one for long work."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from dataclasses import dataclass, field
from typing import Any

ANSWER_LIMIT_BYTES = 1 << 27


class Replaced(Exception):
    """A later question has taken this one's place."""


class Died(Exception):
    """The process ended before it answered; another one starts with the next question."""


@dataclass(slots=True)
class Worker:
    """A process that answers one question at a time."""

    limit_s: float | None = 10.0
    """Seconds after which a question is given up and the process replaced; None: no limit."""
    _process: asyncio.subprocess.Process | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _latest: int = 0
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def start(self) -> None:
        """Start the process."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "windtunnel.studio.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=ANSWER_LIMIT_BYTES,
        )

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """An answer, unless a later question comes before this one's turn.

        Raises:
            Replaced: a later question came.
            Died: the process ended.
            TimeoutError: it took longer than the limit.
        """
        number = next(self._numbers)
        self._latest = number
        async with self._turn:
            if number != self._latest:
                raise Replaced
            if self._process is None or self._process.returncode is not None:
                await self.start()
            assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
            try:
                self._process.stdin.write((json.dumps({**question, "id": number}) + "\n").encode())
                await self._process.stdin.drain()
                line = await asyncio.wait_for(self._process.stdout.readline(), self.limit_s)
            except TimeoutError:
                await self.stop()
                raise
            except (ConnectionError, OSError) as error:
                await self.stop()
                raise Died from error
            except asyncio.CancelledError:
                await self.stop()
                raise
            if not line:
                await self.stop()
                raise Died
            answer: dict[str, Any] = json.loads(line)
            return answer

    async def stop(self) -> None:
        """Kill the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
