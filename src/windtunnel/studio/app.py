"""Routes of the studio: pages and scripts as files, everything else as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from windtunnel.catalogue_entries import catalogue_entries
from windtunnel.commands import COMMANDS
from windtunnel.error_records import problems_of
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading, trust
from windtunnel.files.scope import Scope, confined
from windtunnel.files.writing import place_to_write, write_text
from windtunnel.servers.bodies import Malformed, NotThere, object_of, with_fields
from windtunnel.servers.workers import Busy, Died, Replaced, Workers
from windtunnel.studio.files import MOST_BYTES, Files
from windtunnel.studio.security import REPORT_POLICY

WORKER = "windtunnel.studio.worker"
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
TAB = "windtunnel-tab"
"""Header by which a page names its tab; without it each connection is a client of its own."""
EDIT = "windtunnel-edit"
"""Header with the number of a tab's question: its connections may overtake each other."""
_NUMBER = re.compile(r"[0-9]+")
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_MOST_REPORTS = 20
_MOST_JOBS = 20
"""Jobs that are remembered."""
_JOB_UNASKED_S = 180.0
"""Seconds after which a job that no page asks for is stopped; hidden tabs ask once a minute."""
_MOST_WATCHED = 100
_MOST_WATCHED_A_CLIENT = 8
_LARGE_BODY = 20_000
_WATCH_S = 0.5
_MAYBE_TEXT = (str, type(None))
_QUESTION: Mapping[str, Any] = {
    "text": str,
    "file": _MAYBE_TEXT,
    "verb": _MAYBE_TEXT,
    "options": (dict, type(None)),
}
"""Fields of a question and their kinds."""


def _live() -> Workers:
    return Workers(WORKER, count=max(1, min(4, os.cpu_count() or 1)), first=WARM)


@dataclass(slots=True)
class Job:
    """Long work, and when a page asked for it last."""

    task: asyncio.Task[dict[str, Any]]
    asked_s: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Studio:
    """One studio: the folder that it shows, its processes, and reports that it has written."""

    root: Path
    opened: str | None = None
    """Path below the root that was named when it started."""
    live: Workers = field(default_factory=_live)
    long: Workers = field(default_factory=lambda: Workers(WORKER, limit_s=None, grace_s=0.0))
    behind: Workers = field(default_factory=lambda: Workers(WORKER, limit_s=60.0, first=WARM))
    """Explains figures and writes launch files, so that edits do not wait for it; starts with its first question."""
    asking: Workers = field(default_factory=lambda: Workers(WORKER, limit_s=60.0, first=WARM))
    """Answers questions in words, whose search may take long, so that nothing else waits for it."""
    folder: Any = None
    reports: dict[str, Path] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    watched: Counter[str] = field(default_factory=Counter)
    """Client → streams that it watches files with."""
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    files: Files = field(init=False)
    scope: Scope = field(init=False)
    """What processes may read, write and run: files below the root; Python files that the user has trusted."""

    def __post_init__(self) -> None:
        """Look at the folder."""
        self.files = Files(self.root)
        self.scope = Scope.of(self.root, may_write=True, code="trusted", option="windtunnel studio")

    def application(self) -> Starlette:
        """The ASGI application, without its guard."""
        routes = [
            Route("/", self.static_page),
            Route("/static/{name:path}", self.static_file),
            Route("/api/files", self.json(self.listed), methods=["GET"]),
            Route("/api/file/{id}", self.json(self.read_file), methods=["GET"]),
            Route("/api/file/{id}", self.json(self.write_file, text=str, changed=(float, int)), methods=["PUT"]),
            Route("/api/watch/{id}", self.watch, methods=["GET"]),
            Route("/api/predict", self.json(self.predict, **_QUESTION), methods=["POST"]),
            Route("/api/ask", self.json(self.ask, words=str), methods=["POST"]),
            Route("/api/explain", self.json(self.explain, path=_MAYBE_TEXT, **_QUESTION), methods=["POST"]),
            Route("/api/report", self.json(self.report, **_QUESTION), methods=["POST"]),
            Route("/api/job", self.json(self.start_job, **_QUESTION), methods=["POST"]),
            Route("/api/job/{id}", self.json(self.job), methods=["GET"]),
            Route("/api/job/{id}", self.json(self.cancel_job), methods=["DELETE"]),
            Route("/api/catalogue/{kind}", self.json(self.catalogue), methods=["GET"]),
            Route("/api/entry/{kind}/{name:path}", self.json(self.entry), methods=["GET"]),
            Route(
                "/api/sweeps",
                self.json(self.start_sweep, vary=list, folder=str, count=bool, **_QUESTION),
                methods=["POST"],
            ),
            Route("/api/sweep/{id}", self.json(self.sweep, sql=_MAYBE_TEXT), methods=["POST"]),
            Route("/api/code", self.json(self.code, file=_MAYBE_TEXT, code=str), methods=["POST"]),
            Route("/api/trust", self.json(self.trust, file=_MAYBE_TEXT, code=str, seen=str), methods=["POST"]),
            Route(
                "/api/export",
                self.json(self.export, target=_MAYBE_TEXT, wrapper=_MAYBE_TEXT, **_QUESTION),
                methods=["POST"],
            ),
            Route("/report/{id}", self.report_page),
            Route("/trace/{id}", self.trace_file),
        ]

        @asynccontextmanager
        async def running(app: Starlette) -> AsyncIterator[None]:
            del app
            await self.start()
            try:
                yield
            finally:
                await self.stop()

        return Starlette(routes=routes, lifespan=running)

    async def start(self) -> None:
        """Start the processes that answer edits, and have them load what they need."""
        self.folder = tempfile.TemporaryDirectory(prefix="windtunnel-studio-")
        self.scope = replace(self.scope, writable=(*self.scope.writable, Path(os.path.realpath(self.folder.name))))
        for workers in (self.live, self.long, self.behind, self.asking):
            workers.scope, workers.folder = self.scope, self.folder.name
        for work in (self.live.warm(), self._stop_unasked()):
            self.tasks.add(asyncio.create_task(work))

    async def stop(self) -> None:
        """End everything that runs."""
        for task in (*self.tasks, *(job.task for job in self.jobs.values())):
            task.cancel()
        await asyncio.gather(self.live.stop(), self.long.stop(), self.behind.stop(), self.asking.stop())
        self.folder.cleanup()

    # -- answers

    def json(self, handler: Callable[[Request, dict[str, Any]], Any], **fields: Any) -> Callable[[Request], Any]:
        """A handler whose answer is JSON, and whose errors are problems; it is cancelled where the client goes away.

        Args:
            handler: gets the request and the object of its body.
            fields: of the body, with their kinds.
        """

        async def answered(request: Request) -> Response:
            try:
                body = await request.body()
                large = len(body) > _LARGE_BODY
                asked = await run_in_threadpool(object_of, body) if large else object_of(body)
                with_fields(asked, fields)
                with confined(self.scope):
                    return JSONResponse(await handler(request, asked))
            except Exception as error:
                problems, code = problems_of(error)
                status = getattr(error, "status", 500 if code == 1 else 200)
                return JSONResponse({"ok": False, "problems": problems, "exit_code": code}, status)

        async def handled(request: Request) -> Response:
            await request.body()
            work, gone = asyncio.ensure_future(answered(request)), asyncio.ensure_future(request.receive())
            try:
                await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
                return work.result() if work.done() else Response(status_code=499)
            finally:
                work.cancel()
                gone.cancel()

        return handled

    async def predict(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to the latest edit of a client."""
        question = await self._question(asked)
        try:
            number = request.headers.get(EDIT, "")[:15]
            return await self.live.ask(question, client_of(request), int(number) if _NUMBER.fullmatch(number) else 0)
        except Replaced:
            return {"ok": False, "replaced": True, "problems": []}
        except TimeoutError:
            rule = f"took longer than {self.live.limit_s:.0f} s: start it as a job"
            return {"ok": False, "slow": True, "problems": [_problem(rule)]}
        except Busy:
            return {"ok": False, "busy": True, "problems": [_problem("too many pages ask at once; edit again")]}
        except Died:
            return {"ok": False, "died": True, "problems": [_problem("the predicting process ended; edit again")]}

    async def ask(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question in words, as `windtunnel ask` gives it."""
        if not asked.get("words"):
            raise Malformed(Problem("words", "must be a question"))
        question = {"words": asked["words"], "task": "ask"}
        try:
            return await self.asking.ask({**question, "key": json.dumps(question)}, f"ask {client_of(request)}")
        except (Replaced, TimeoutError, Died, Busy):
            rule = 'took too long here; ask in a terminal: windtunnel "…"'
            return {"ok": False, "problems": [_problem(rule)]}

    async def explain(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """What a figure is made of, and the chain of `explain --json` behind it."""
        from windtunnel.studio.origins import origin_of

        path = str(asked.pop("path", None) or "")
        try:
            answer = await self.behind.ask(await self._question(asked, task="explain"), f"explain {client_of(request)}")
        except (Replaced, TimeoutError, Died, Busy):
            return {"ok": False, "problems": [_problem("could not be explained now; ask again")]}
        return {**answer, "origin": origin_of(answer["of"], path)} if answer["ok"] else answer

    async def report(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer with its report, which `/report/ID` shows."""
        try:
            return await self._with_report(asked, self.live, f"report {client_of(request)}")
        except (Replaced, TimeoutError, Died, Busy):
            return {"ok": False, "problems": [_problem("could not be reported now; ask again")]}

    async def start_job(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Start long work: plan, advise, a run with everything."""
        await self._question(asked)
        return self._started(lambda name: self._with_report(asked, self.long, name))

    async def start_sweep(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Start a sweep whose rows go to a folder below the root; with `count`, only say what it would take."""
        vary, folder, count = asked.pop("vary", []), asked.pop("folder", ""), asked.pop("count", False)
        if not folder or not all(isinstance(one, str) for one in vary):
            raise BadInput(Problem("folder", "must be a folder for the rows, such as runs/a", folder))
        place = place_to_write(self.root / folder, "folder")
        options = {"vary": vary, "out": str(place), "count": count}
        question = await self._question({**asked, "options": options}, task="sweep")
        if not count:
            return self._started(lambda name: self.long.ask(question, name))
        try:
            return await self.behind.ask(question, f"sweep {client_of(request)}")
        except Replaced:
            return {"ok": False, "replaced": True, "problems": []}
        except (TimeoutError, Died, Busy):
            return {"ok": False, "problems": [_problem("could not be counted now; ask again")]}

    def _started(self, work: Callable[[str], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
        """Start a job, where none runs."""
        running = [name for name, job in self.jobs.items() if not job.task.done()]
        if running:
            raise BadInput(Problem("job", "another job is running; wait for it, or stop it", running[0]))
        name = secrets.token_hex(6)
        self.jobs[name] = Job(asyncio.create_task(work(name)))
        for old in list(self.jobs)[:-_MOST_JOBS]:
            del self.jobs[old]
        return {"ok": True, "id": name}

    async def job(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """State of a job, and its answer."""
        job = self.jobs.get(request.path_params["id"])
        if job is None:
            raise NotThere(Problem("id", "no such job"))
        job.asked_s, task = time.monotonic(), job.task
        if not task.done():
            return {"ok": True, "state": "running"}
        if task.cancelled() or isinstance(task.exception(), Died):
            return {"ok": False, "state": "stopped", "problems": []}
        if error := task.exception():
            problems, code = problems_of(error if isinstance(error, Exception) else RuntimeError(str(error)))
            return {"ok": False, "state": "failed", "problems": problems, "exit_code": code}
        return {"state": "done", **task.result()}

    async def cancel_job(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Stop a job at once."""
        job = self.jobs.get(request.path_params["id"])
        if job is None:
            raise NotThere(Problem("id", "no such job"))
        job.task.cancel()
        return {"ok": True, "state": "stopped"}

    async def _stop_unasked(self) -> None:
        """Stop jobs whose page has gone."""
        while True:
            await asyncio.sleep(_JOB_UNASKED_S / 20)
            for job in self.jobs.values():
                if time.monotonic() - job.asked_s > _JOB_UNASKED_S:
                    job.task.cancel()

    async def _with_report(self, asked: dict[str, Any], workers: Workers, client: str) -> dict[str, Any]:
        question = await self._question(asked)
        name = secrets.token_hex(6)
        path = Path(self.folder.name) / f"{name}.html"
        del question["key"]
        answer = await workers.ask({**question, "report": str(path)}, client)
        if answer.get("has_report") and path.exists():
            self.reports[name] = path
            for old in list(self.reports)[:-_MOST_REPORTS]:
                gone = self.reports.pop(old)
                gone.unlink(missing_ok=True)
                gone.with_suffix(".json").unlink(missing_ok=True)
            answer["report"] = f"/report/{name}"
            if path.with_suffix(".json").exists():
                answer["trace"] = f"/trace/{name}"
        return answer

    async def _question(self, asked: dict[str, Any], task: str = "") -> dict[str, Any]:
        """A question to a worker, from what a page sends; the worker reads the scenario's text.

        Raises:
            Malformed: there is no text.
            NotThere: the command or the file is not there.
        """
        if "text" not in asked:
            raise Malformed(Problem("text", "must be the text of a scenario"))
        verb = asked.get("verb")
        if verb and verb not in await run_in_threadpool(_commands):
            raise NotThere(COMMANDS.unknown(verb, "verb"))
        folder = self.root
        if asked.get("file"):
            folder = (await self._path(asked["file"])).parent
        question = {
            "text": asked["text"],
            "folder": str(folder),
            "options": asked.get("options") or {},
            "task": task,
            **({"verb": verb} if verb else {}),
        }
        return {**question, "key": json.dumps(question, sort_keys=True)}

    async def _path(self, id: str) -> Path:
        """The file of an id.

        Raises:
            NotThere: there is none.
        """
        try:
            path: Path = await run_in_threadpool(self.files.path, id)
        except BadInput as error:
            raise NotThere(error.problems) from None
        return path

    # -- files

    async def listed(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Scenarios and sweeps of the folder."""
        found = await run_in_threadpool(self.files.listed)
        opened = next((e["id"] for kind in found.values() for e in kind if e["path"] == self.opened), None)
        return {"ok": True, "root": self.root.name, "opened": opened, **found}

    async def read_file(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Text of a scenario."""
        path = await self._path(request.path_params["id"])
        raw = await run_in_threadpool(partial(reading.read_bytes, path, "file", most_bytes=MOST_BYTES))
        text = raw.decode("utf-8", "replace")
        return {"ok": True, "text": text, "changed": path.stat().st_mtime, "path": self.files.shown(path)}

    async def write_file(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Save a scenario; refused where the file has changed since it was read."""
        path = await self._path(request.path_params["id"])
        if "text" not in asked:
            raise Malformed(Problem("text", "must be the text of a scenario"))
        if path.stat().st_mtime != asked.get("changed"):
            raise BadInput(Problem("file", "has changed on disk since it was opened; load it again first", path.name))
        await run_in_threadpool(write_text, path, asked["text"], "file")
        return {"ok": True, "changed": path.stat().st_mtime}

    async def watch(self, request: Request) -> Response:
        """Server-sent events: a line whenever a file changes on disk."""
        try:
            path = await self._path(request.path_params["id"])
            last = path.stat().st_mtime
        except (BadInput, OSError):
            return PlainTextResponse("no such file below the folder of the studio\n", 404)
        client = request.query_params.get("tab", "")[:64]
        if self.watched[client] >= _MOST_WATCHED_A_CLIENT or self.watched.total() >= _MOST_WATCHED:
            rule = f"at most {_MOST_WATCHED_A_CLIENT} files are watched for a page, {_MOST_WATCHED} for all\n"
            return PlainTextResponse(rule, 429)
        return StreamingResponse(self._changes(request, path, last, client), media_type="text/event-stream")

    async def _changes(self, request: Request, path: Path, last: float, client: str) -> AsyncIterator[str]:
        self.watched[client] += 1
        try:
            while not await request.is_disconnected():
                await asyncio.sleep(_WATCH_S)
                try:
                    now = path.stat().st_mtime
                except OSError:
                    continue
                if now != last:
                    last = now
                    yield f"data: {json.dumps({'changed': now})}\n\n"
        finally:
            self.watched[client] -= 1
            if not self.watched[client]:
                del self.watched[client]

    # -- catalogue, sweeps, export

    async def catalogue(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Entries of one kind."""
        kind = request.path_params["kind"]
        try:
            return {"ok": True, "entries": await run_in_threadpool(catalogue_entries, kind)}
        except BadInput as error:
            raise NotThere(error.problems) from None

    async def entry(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """One entry with the source of its values."""
        kind, name = request.path_params["kind"], request.path_params["name"]
        try:
            return {"ok": True, "entry": await run_in_threadpool(_entry, kind, name)}
        except BadInput as error:
            raise NotThere(error.problems) from None

    async def sweep(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Status of a sweep, and rows of an SQL query over it, run in a process that can read nothing else."""
        from windtunnel import api
        from windtunnel.studio.sql import asked_sql
        from windtunnel.sweeps.definition import read_manifest

        path = await self._path(request.path_params["id"])
        status = await run_in_threadpool(api.sweep_status, path)
        found = await asked_sql(path, asked.get("sql") or "SELECT * FROM cells LIMIT 5000", self.folder.name)
        manifest = await run_in_threadpool(read_manifest, path)
        return {"ok": True, "status": status, "scenario": manifest.scenario, **found}

    async def export(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Launch files of a plan, as texts."""
        options = {name: asked.pop(name, None) for name in ("target", "wrapper")}
        question = await self._question({**asked, "options": options}, task="export")
        try:
            return await self.behind.ask(question, f"export {client_of(request)}")
        except (Replaced, TimeoutError, Died, Busy):
            return {"ok": False, "problems": [_problem("could not be exported now; ask again")]}

    # -- Python files

    async def code(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Text of a Python file that a scenario names, to be read before it is trusted."""
        path, raw = await self._code_file(asked)
        return {"ok": True, "path": self.files.shown(path), "text": raw.decode("utf-8", "replace")}

    async def trust(self, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        """Let a Python file that a scenario names run, for as long as it stays as the page has shown it."""
        path, raw = await self._code_file(asked)
        if raw.decode("utf-8", "replace") != asked.get("seen"):
            raise BadInput(Problem("code", "has changed since it was shown; read it again", path.name))
        await run_in_threadpool(trust.trust_file, path, "code")
        return {"ok": True}

    async def _code_file(self, asked: dict[str, Any]) -> tuple[Path, bytes]:
        """The Python file that a problem of a scenario names, and its content.

        Raises:
            BadInput: it lies outside the folder, or a link leads to it.
        """
        if "code" not in asked:
            raise Malformed(Problem("code", "must be the name of a Python file"))
        folder = (await self._path(asked["file"])).parent if asked.get("file") else self.root
        path = folder / asked["code"]
        most = trust.MOST_CODE_BYTES
        return path, await run_in_threadpool(partial(reading.read_bytes, path, "code", most_bytes=most))

    # -- pages

    async def static_page(self, request: Request) -> Response:
        """The one page."""
        del request
        return _static("index.html")

    async def static_file(self, request: Request) -> Response:
        """A script or style of the page."""
        return _static(request.path_params["name"])

    async def report_page(self, request: Request) -> Response:
        """A report, in an origin of its own."""
        path = self.reports.get(request.path_params["id"])
        if path is None:
            return PlainTextResponse("no such report\n", 404)
        nonce = secrets.token_urlsafe(12)
        text = path.read_text(encoding="utf-8").replace("<script>", f'<script nonce="{nonce}">')
        if (theme := request.query_params.get("theme")) in ("light", "dark"):
            text = text.replace('<html lang="en">', f'<html lang="en" data-theme="{theme}">', 1)
        return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY.format(nonce=nonce)})

    async def trace_file(self, request: Request) -> Response:
        """The trace of a timeline, to be saved and opened in Perfetto."""
        path = self.reports.get(request.path_params["id"])
        trace = path and path.with_suffix(".json")
        if trace is None or not trace.exists():
            return PlainTextResponse("no such report\n", 404)
        return FileResponse(trace, media_type="application/json", filename="windtunnel-trace.json")


def client_of(request: Request) -> str:
    """Who asks: the tab of a page, else the connection."""
    return request.headers.get(TAB, "")[:64] or f"{request.client}"


@cache
def _commands() -> frozenset[str]:
    return frozenset(COMMANDS.list())


@cache
def _pages() -> frozenset[str]:
    """Names of all files that pages are made of."""
    names, folders = set[str](), [("", resources("windtunnel.studio").joinpath("static"))]
    while folders:
        above, folder = folders.pop()
        for one in folder.iterdir():
            if one.is_dir():
                folders.append((f"{above}{one.name}/", one))
            elif Path(one.name).suffix in _KINDS and not one.name.startswith("."):
                names.add(above + one.name)
    return frozenset(names)


def _static(name: str) -> Response:
    if name == "timeline.js":  # the script of reports
        text = resources("windtunnel.writers").joinpath("assets", name).read_text(encoding="utf-8")
        return Response(text, media_type=_KINDS[".js"])
    if name not in _pages():
        return PlainTextResponse("no such page\n", 404)
    found = resources("windtunnel.studio").joinpath("static", *name.split("/"))
    return Response(found.read_text(encoding="utf-8"), media_type=_KINDS[Path(name).suffix])


def _problem(rule: str) -> dict[str, Any]:
    return problems_of(BadInput(Problem("", rule)))[0][0]


def _entry(kind: str, name: str) -> dict[str, Any]:
    from windtunnel import catalog

    if kind == "techniques":
        from windtunnel.techniques import REGISTRY
        from windtunnel.techniques.described import record

        return record(REGISTRY.get(name, field="technique"))
    if kind == "devices":
        return catalog.device(name).model_dump(mode="json", exclude_defaults=True)
    if kind == "models":
        return catalog.model(name).model_dump(mode="json", exclude_defaults=True)
    raise BadInput(Problem("kind", "must be one of devices, models, techniques", kind))
