"""Processes that predict: one that is always warm and answers the latest edit, and one for long work."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from dataclasses import dataclass, field
from typing import Any

from windtunnel.files.scope import Scope

ANSWER_LIMIT_BYTES = 1 << 27
START_LIMIT_S = 120.0
"""Seconds in which a process has to have loaded; on a fresh machine it compiles kernels."""
WARM: dict[str, Any] = {
    "verb": "train",
    "folder": "",
    "scenario": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1},
        "training": {"seq_len": 4096, "global_batch": 8},
        "plan": {"tp": 1, "mbs": 1},
    },
}
"""The first question of a process, whose answer nobody reads."""


class Replaced(Exception):
    """A later question has taken this one's place."""


class Died(Exception):
    """The process ended before it answered; another one starts with the next question."""


@dataclass(slots=True)
class Worker:
    """A process that answers one question at a time."""

    limit_s: float | None = 10.0
    """Seconds after which a question is given up and the process replaced; None: no limit."""
    scope: Scope | None = None
    """What the process may read, write and run."""
    _process: asyncio.subprocess.Process | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _latest: int = 0
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def start(self) -> None:
        """Start the process and wait until it has answered once; nobody's question pays for what it loads."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "windtunnel.studio.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=ANSWER_LIMIT_BYTES,
            env=self.scope.environment() if self.scope is not None else None,
        )
        if self.limit_s is not None:
            await asyncio.wait_for(self._exchange(WARM), START_LIMIT_S)

    async def warm(self) -> None:
        """Start the process before the first question."""
        async with self._turn:
            if self._process is None:
                with contextlib.suppress(Died, TimeoutError):
                    await self.start()

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """An answer, unless a later question comes before this one's turn.

        Raises:
            Replaced: a later question came.
            Died: the process ended twice at this question.
            TimeoutError: it took longer than the limit.
        """
        number = next(self._numbers)
        self._latest = number
        async with self._turn:
            if number != self._latest:
                raise Replaced
            try:
                return await self._answered({**question, "id": number})
            except Died:  # it may have been dead before: another one is asked
                return await self._answered({**question, "id": number})

    async def _answered(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer of a process that is there or is started; one that fails is stopped."""
        try:
            if self._process is None or self._process.returncode is not None:
                await self.start()
            return await asyncio.wait_for(self._exchange(question), self.limit_s)
        except (ConnectionError, OSError) as error:
            await self.stop()
            if isinstance(error, TimeoutError):
                raise
            raise Died from error
        except (Died, asyncio.CancelledError):
            await self.stop()
            raise

    async def _exchange(self, question: dict[str, Any]) -> dict[str, Any]:
        """One line to the process and one back."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write((json.dumps(question) + "\n").encode())
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
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
