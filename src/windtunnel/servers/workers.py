"""Processes that answer questions, in turns that are fair to the clients that ask.

Each client has one question that waits at most. A later one replaces it, and takes its turn once the client has waited
for long. A client that goes away takes its question with it; where a process computes it already, the process has a
moment to end it and is replaced then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from windtunnel.files.scope import Scope

ANSWER_LIMIT_BYTES = 1 << 27
START_LIMIT_S = 120.0
"""Seconds in which a process has to have loaded; on a fresh machine it compiles kernels."""
MOST_KEPT = 200
"""Answers that are kept for equal questions."""
PATIENCE_S = 2.0
"""Seconds for which a client that asks anew goes to the end of the queue: those that have ended typing come first."""
MOST_KEPT_BYTES = 200_000
"""Size of an answer that is kept."""


class Replaced(Exception):
    """A later question of the same client has taken this one's place."""


class Died(Exception):
    """The process ended before its result came; another one starts with the next question."""


class Busy(Exception):
    """As many questions wait as may."""


@dataclass(slots=True, eq=False)
class Process:
    """One process that answers one question at a time, as a JSON line each."""

    module: str
    scope: Scope | None
    first: dict[str, Any] | None
    """Its first question, whose answer nobody reads."""
    folder: str | None
    """Folder for its temporary files, which goes with the server."""
    running: asyncio.subprocess.Process | None = None

    @property
    def alive(self) -> bool:
        """Whether it waits for a question."""
        return self.running is not None and self.running.returncode is None

    async def start(self) -> None:
        """Start it and wait until it has answered once; nobody's question pays for what it loads."""
        environment = dict(os.environ) if self.scope is None else self.scope.environment()
        if self.folder:
            environment["TMPDIR"] = self.folder
        self.running = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            self.module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=ANSWER_LIMIT_BYTES,
            env=environment,
        )
        if self.first is not None:
            await asyncio.wait_for(self._exchange(self.first), START_LIMIT_S)

    async def answered(self, question: dict[str, Any], limit_s: float | None) -> bytes:
        """The answer's line; a process that fails, is late or is no longer wanted is stopped.

        Raises:
            Died: the process ended.
            TimeoutError: it took longer than the limit.
        """
        try:
            if not self.alive:
                await self.start()
            return await asyncio.wait_for(self._exchange(question), limit_s)
        except BaseException as error:
            await self.stop()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise Died from error
            raise

    async def _exchange(self, question: dict[str, Any]) -> bytes:
        process = self.running
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write((json.dumps(question) + "\n").encode())
        await process.stdin.drain()
        try:
            line = await process.stdout.readline()
        except ValueError:  # an answer of more than the limit
            raise Died from None
        if not line:
            raise Died
        return line

    async def stop(self) -> None:
        """Kill it."""
        process, self.running = self.running, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@dataclass(slots=True, eq=False)
class _Asked:
    question: dict[str, Any]
    client: str
    number: int
    since_s: float
    """When the client began to wait."""
    answer: asyncio.Future[dict[str, Any]]
    work: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Workers:
    """Processes that share the questions of all clients."""

    module: str
    count: int = 1
    limit_s: float | None = 10.0
    """Seconds after which a question is given up and the process replaced; None: no limit."""
    grace_s: float = 1.0
    """Seconds in which a process may end a question that nobody waits for."""
    most_waiting: int = 1000
    first: dict[str, Any] | None = None
    scope: Scope | None = None
    """What the processes may read, write and run."""
    folder: str | None = None
    """Folder for their temporary files."""
    waiting: OrderedDict[str, _Asked] = field(default_factory=OrderedDict)
    kept: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)
    _working: dict[str, _Asked] = field(default_factory=dict)
    _free: list[Process] = field(default_factory=list)
    _all: list[Process] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _ended: bool = False

    async def warm(self) -> None:
        """Start the processes before the first question, one after the other."""
        self._make()
        for process in list(self._free):
            if process in self._free and not process.alive:
                self._free.remove(process)
                await self._start(process)

    async def ask(self, question: dict[str, Any], client: str, number: int = 0) -> dict[str, Any]:
        """An answer, unless a later question of the same client comes before this one's turn.

        Args:
            question: `key` names what it asks: an answer that says it `may_be_kept` serves equal ones too.
            client: who asks.
            number: of the question among the client's: one with a smaller number that arrives later is an earlier one.

        Raises:
            Replaced: a later question came.
            Busy: too many clients wait.
            Died: the process ended twice at this question.
            TimeoutError: it took longer than the limit.
        """
        asked = _Asked(question, client, number, time.monotonic(), asyncio.get_running_loop().create_future())
        if (older := self.waiting.get(client) or self._working.get(client)) and older.number > number:
            raise Replaced
        if (older := self.waiting.get(client)) is not None:
            if not older.answer.done():
                older.answer.set_exception(Replaced())
        elif len(self.waiting) >= self.most_waiting:
            raise Busy
        else:
            older = asked
        self.waiting[client] = asked
        if asked.since_s - older.since_s < PATIENCE_S:
            self.waiting.move_to_end(client)
        asked.since_s = older.since_s
        self._serve()
        try:
            return await asked.answer
        except asyncio.CancelledError:
            if self.waiting.get(client) is asked:
                del self.waiting[client]
            if asked.work is not None and not asked.work.done():
                asyncio.get_running_loop().call_later(self.grace_s, asked.work.cancel)
            raise

    async def stop(self) -> None:
        """End everything that runs."""
        self._ended = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(process.stop() for process in self._all))

    def kill(self) -> None:
        """End everything at once, where no event loop runs any more."""
        self._ended = True
        for process in self._all:
            if process.running is not None and process.running.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.running.kill()

    def _make(self) -> None:
        while len(self._all) < self.count:
            process = Process(self.module, self.scope, self.first, self.folder)
            self._all.append(process)
            self._free.append(process)

    def _serve(self) -> None:
        """Give waiting questions to free processes, those of clients that have none at work first."""
        self._make()
        for client, asked in list(self.waiting.items()):
            if (answer := self.kept.get(str(asked.question.get("key")))) is not None:
                del self.waiting[client]
                if not asked.answer.done():
                    asked.answer.set_result(dict(answer))
            elif self._free and client not in self._working and not self._ended:
                del self.waiting[client]
                self._free.sort(key=lambda process: process.alive)
                self._working[client] = asked
                asked.work = self._spawn(self._work(self._free.pop(), asked))

    async def _work(self, process: Process, asked: _Asked) -> None:
        try:
            answer = await self._answer(process, asked.question)
            if not asked.answer.done():
                asked.answer.set_result(answer)
        except (Died, TimeoutError, ValueError) as error:
            if not asked.answer.done():
                asked.answer.set_exception(error if not isinstance(error, ValueError) else Died())
        finally:
            del self._working[asked.client]
            if not asked.answer.done():
                asked.answer.cancel()
            if process.alive or self.first is None or self._ended:
                self._free.append(process)
            else:
                self._spawn(self._start(process))
            self._serve()

    async def _answer(self, process: Process, question: dict[str, Any]) -> dict[str, Any]:
        try:
            line = await process.answered(question, self.limit_s)
        except Died:  # it may have been dead before: another one is asked
            line = await process.answered(question, self.limit_s)
        answer: dict[str, Any] = json.loads(line)
        if answer.pop("may_be_kept", False) and len(line) <= MOST_KEPT_BYTES and "key" in question:
            self.kept[question["key"]] = dict(answer)
            while len(self.kept) > MOST_KEPT:
                self.kept.popitem(last=False)
        return answer

    async def _start(self, process: Process) -> None:
        """Start a process, which is free afterwards in any case."""
        try:
            await process.start()
        except (Died, TimeoutError, OSError):
            await process.stop()
        finally:
            self._free.append(process)
            self._serve()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
