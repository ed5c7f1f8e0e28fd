"""Routes of the studio: pages and scripts as files, everything else as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from windtunnel.catalogue_entries import catalogue_entries
from windtunnel.error_records import problems_of
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading, trust
from windtunnel.files.scope import Scope, confined, scratch_folder
from windtunnel.files.writing import write_text
from windtunnel.studio.files import MOST_BYTES, Files
from windtunnel.studio.live import Died, Replaced, Worker
from windtunnel.studio.security import REPORT_POLICY

_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_MOST_REPORTS = 20
_MOST_EXPLAINED = 12
_WATCH_S = 0.5


@dataclass(slots=True)
class Studio:
    """One studio: the folder that it shows, its processes, and reports that it has written."""

    root: Path
    opened: str | None = None
    """Path below the root that was named when it started."""
    live: Worker = field(default_factory=Worker)
    long: Worker = field(default_factory=lambda: Worker(limit_s=None))
    behind: Worker = field(default_factory=lambda: Worker(limit_s=60.0))
    """Explains figures, so that edits do not wait for it; starts after the first prediction."""
    folder: Any = None
    reports: dict[str, Path] = field(default_factory=dict)
    jobs: dict[str, asyncio.Task[Any]] = field(default_factory=dict)
    explained: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Question → what stands behind its figures, of the last few."""
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
            Route("/api/file/{id}", self.json(self.write_file), methods=["PUT"]),
            Route("/api/watch/{id}", self.watch, methods=["GET"]),
            Route("/api/predict", self.json(self.predict), methods=["POST"]),
            Route("/api/explain", self.json(self.explain), methods=["POST"]),
            Route("/api/report", self.json(self.report), methods=["POST"]),
            Route("/api/job", self.json(self.start_job), methods=["POST"]),
            Route("/api/job/{id}", self.json(self.job), methods=["GET"]),
            Route("/api/job/{id}", self.json(self.cancel_job), methods=["DELETE"]),
            Route("/api/catalogue/{kind}", self.json(self.catalogue), methods=["GET"]),
            Route("/api/entry/{kind}/{name:path}", self.json(self.entry), methods=["GET"]),
            Route("/api/sweep/{id}", self.json(self.sweep), methods=["POST"]),
            Route("/api/code", self.json(self.code), methods=["POST"]),
            Route("/api/trust", self.json(self.trust), methods=["POST"]),
            Route("/api/export", self.json(self.export), methods=["POST"]),
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
        """Start the process that answers edits, and have it load what it needs."""
        self.folder = tempfile.TemporaryDirectory(prefix="windtunnel-studio-")
        self.scope = replace(self.scope, writable=(*self.scope.writable, Path(os.path.realpath(self.folder.name))))
        for worker in (self.live, self.long, self.behind):
            worker.scope = self.scope
        self.jobs["warm"] = asyncio.create_task(self.live.warm())

    async def stop(self) -> None:
        """End everything that runs."""
        for task in self.jobs.values():
            task.cancel()
        await asyncio.gather(self.live.stop(), self.long.stop(), self.behind.stop())
        self.folder.cleanup()

    # -- answers

    def json(self, handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """A handler whose answer is JSON, and whose errors are problems."""

        async def handled(request: Request) -> Response:
            try:
                with confined(self.scope):
                    return JSONResponse(await handler(request))
            except Exception as error:
                problems, code = problems_of(error)
                return JSONResponse({"ok": False, "problems": problems, "exit_code": code}, 500 if code == 1 else 200)

        return handled

    async def predict(self, request: Request) -> dict[str, Any]:
        """The answer to the latest edit."""
        asked = await request.json()
        question = self._question(asked)
        try:
            answer = await self.live.ask(question)
            answer["fields"] = question["scenario"]
            if "behind" not in self.jobs:
                self.jobs["behind"] = asyncio.create_task(self.behind.warm())
            return answer
        except Replaced:
            return {"ok": False, "replaced": True, "problems": []}
        except TimeoutError:
            rule = f"took longer than {self.live.limit_s:.0f} s: start it as a job"
            return {"ok": False, "slow": True, "problems": [_problem(rule)]}
        except Died:
            return {"ok": False, "died": True, "problems": [_problem("the predicting process ended; edit again")]}

    async def explain(self, request: Request) -> dict[str, Any]:
        """What a figure is made of, and the chain of `explain --json` behind it."""
        from windtunnel.studio.origins import origin_of

        asked = await request.json()
        question = self._question(asked)
        of = question["verb"]
        question |= {"verb": "explain", "options": {**question["options"], "of": of}}
        key = json.dumps(question, sort_keys=True)
        if key not in self.explained:
            try:
                answer = await self.behind.ask(question)
            except (Replaced, TimeoutError, Died):
                return {"ok": False, "problems": [_problem("could not be explained now; ask again")]}
            if not answer["ok"]:
                return answer
            for old in list(self.explained)[: 1 - _MOST_EXPLAINED]:
                del self.explained[old]
            self.explained[key] = answer["result"]
        return {"ok": True, "origin": origin_of(of, str(asked.get("path", ""))), **self.explained[key]}

    async def report(self, request: Request) -> dict[str, Any]:
        """The answer with its report, which `/report/ID` shows."""
        return await self._with_report(await request.json(), self.live)

    async def start_job(self, request: Request) -> dict[str, Any]:
        """Start long work: plan, advise, a run with everything."""
        asked = await request.json()
        running = [name for name, task in self.jobs.items() if name not in ("warm", "behind") and not task.done()]
        if running:
            raise BadInput(Problem("job", "another job is running; wait for it, or stop it", running[0]))
        name = secrets.token_hex(6)
        self.jobs[name] = asyncio.create_task(self._with_report(asked, self.long))
        return {"ok": True, "id": name}

    async def job(self, request: Request) -> dict[str, Any]:
        """State of a job, and its answer."""
        task = self.jobs.get(request.path_params["id"])
        if task is None:
            raise BadInput(Problem("id", "no such job"))
        if not task.done():
            return {"ok": True, "state": "running"}
        if task.cancelled() or isinstance(task.exception(), Died):
            return {"ok": False, "state": "stopped", "problems": []}
        if error := task.exception():
            problems, code = problems_of(error if isinstance(error, Exception) else RuntimeError(str(error)))
            return {"ok": False, "state": "failed", "problems": problems, "exit_code": code}
        return {"state": "done", **task.result()}

    async def cancel_job(self, request: Request) -> dict[str, Any]:
        """Stop a job at once."""
        task = self.jobs.get(request.path_params["id"])
        if task is not None:
            task.cancel()
            await self.long.stop()
        return {"ok": True, "state": "stopped"}

    async def _with_report(self, asked: Any, worker: Worker) -> dict[str, Any]:
        question = self._question(asked)
        name = secrets.token_hex(6)
        path = Path(self.folder.name) / f"{name}.html"
        answer = await worker.ask({**question, "report": str(path)})
        answer["fields"] = question["scenario"]
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

    def _question(self, asked: Any) -> dict[str, Any]:
        """A question to a worker, from what a page sends.

        Raises:
            BadInput: the text is no mapping, or names files outside the folder.
        """
        if not isinstance(asked, dict) or not isinstance(asked.get("text"), str):
            raise BadInput(Problem("text", "must be the text of a scenario"))
        from windtunnel.commands import meant_by
        from windtunnel.scenarios.read import parse_mapping

        data = parse_mapping(asked["text"], "scenario")
        folder = self.root
        if asked.get("file"):
            folder = self.files.path(str(asked["file"])).parent
        verb = asked.get("verb") or meant_by(data)
        options = asked.get("options")
        if options is not None and not isinstance(options, dict):
            raise BadInput(Problem("options", "must be a mapping"))
        return {"verb": str(verb), "scenario": data, "folder": str(folder), "options": options or {}}

    # -- files

    async def listed(self, request: Request) -> dict[str, Any]:
        """Scenarios and sweeps of the folder."""
        del request
        found = await run_in_threadpool(self.files.listed)
        opened = next((e["id"] for kind in found.values() for e in kind if e["path"] == self.opened), None)
        return {"ok": True, "root": self.root.name, "opened": opened, **found}

    async def read_file(self, request: Request) -> dict[str, Any]:
        """Text of a scenario."""
        path = self.files.path(request.path_params["id"])
        raw = await run_in_threadpool(partial(reading.read_bytes, path, "file", most_bytes=MOST_BYTES))
        text = raw.decode("utf-8", "replace")
        return {"ok": True, "text": text, "changed": path.stat().st_mtime, "path": str(path.relative_to(self.root))}

    async def write_file(self, request: Request) -> dict[str, Any]:
        """Save a scenario; refused where the file has changed since it was read."""
        asked = await request.json()
        path = self.files.path(request.path_params["id"])
        if path.stat().st_mtime != asked.get("changed"):
            raise BadInput(Problem("file", "has changed on disk since it was opened; load it again first", path.name))
        write_text(path, str(asked["text"]), "file")
        return {"ok": True, "changed": path.stat().st_mtime}

    async def watch(self, request: Request) -> Response:
        """Server-sent events: a line whenever a file changes on disk."""
        try:
            path = self.files.path(request.path_params["id"])
        except BadInput:
            return Response(status_code=404)

        async def events() -> Any:
            last = path.stat().st_mtime
            while not await request.is_disconnected():
                await asyncio.sleep(_WATCH_S)
                try:
                    now = path.stat().st_mtime
                except OSError:
                    continue
                if now != last:
                    last = now
                    yield f"data: {json.dumps({'changed': now})}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    # -- catalogue, sweeps, export

    async def catalogue(self, request: Request) -> dict[str, Any]:
        """Entries of one kind."""
        kind = request.path_params["kind"]
        return {"ok": True, "entries": await run_in_threadpool(catalogue_entries, kind)}

    async def entry(self, request: Request) -> dict[str, Any]:
        """One entry with the source of its values."""
        kind, name = request.path_params["kind"], request.path_params["name"]
        return {"ok": True, "entry": await run_in_threadpool(_entry, kind, name)}

    async def sweep(self, request: Request) -> dict[str, Any]:
        """Status of a sweep, and rows of an SQL query over it, run in a process that can read nothing else."""
        from windtunnel import api
        from windtunnel.studio.sql import asked_sql
        from windtunnel.sweeps.definition import read_manifest

        asked = await request.json()
        path = self.files.path(request.path_params["id"])
        status = await run_in_threadpool(api.sweep_status, path)
        sql = str(asked.get("sql") or "SELECT * FROM cells LIMIT 5000")
        found = await run_in_threadpool(asked_sql, path, sql)
        return {"ok": True, "status": status, "scenario": read_manifest(path).scenario, **found}

    async def export(self, request: Request) -> dict[str, Any]:
        """Launch files of a plan, as texts."""
        asked = await request.json()
        question = self._question(asked)
        return {
            "ok": True,
            **await run_in_threadpool(_export, question, str(asked.get("target")), asked.get("wrapper")),
        }

    # -- Python files

    async def code(self, request: Request) -> dict[str, Any]:
        """Text of a Python file that a scenario names, to be read before it is trusted."""
        path = self._code_file(await request.json())
        raw = reading.read_bytes(path, "code", most_bytes=trust.MOST_CODE_BYTES)
        return {"ok": True, "path": str(path.relative_to(self.root)), "text": raw.decode("utf-8", "replace")}

    async def trust(self, request: Request) -> dict[str, Any]:
        """Let a Python file that a scenario names run, for as long as it stays as the page has shown it."""
        asked = await request.json()
        path = self._code_file(asked)
        raw = reading.read_bytes(path, "code", most_bytes=trust.MOST_CODE_BYTES)
        if raw.decode("utf-8", "replace") != asked.get("seen"):
            raise BadInput(Problem("code", "has changed since it was shown; read it again", path.name))
        trust.trust_file(path, "code")
        return {"ok": True}

    def _code_file(self, asked: Any) -> Path:
        """The Python file that a problem of a scenario names.

        Raises:
            BadInput: it lies outside the folder, or a link leads to it.
        """
        folder = self.files.path(str(asked["file"])).parent if asked.get("file") else self.root
        path = folder / str(asked.get("code"))
        reading.open_bytes(path, "code").close()
        return path

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
            return Response(status_code=404)
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
            return Response(status_code=404)
        return FileResponse(trace, media_type="application/json", filename="windtunnel-trace.json")


def _static(name: str) -> Response:
    folder = resources("windtunnel.studio").joinpath("static")
    parts = name.split("/")
    suffix = Path(name).suffix
    if suffix not in _KINDS or any(part in ("", ".", "..") or part.startswith(".") for part in parts):
        return Response(status_code=404)
    found = folder.joinpath(*parts)
    if not found.is_file():
        return Response(status_code=404)
    return Response(found.read_text(encoding="utf-8"), media_type=_KINDS[suffix])


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


def _export(question: dict[str, Any], target: str, wrapper: Any) -> dict[str, Any]:
    from windtunnel.commands.launch_files import write_launch_files
    from windtunnel.scenarios.source import FieldsInFolder

    source = FieldsInFolder(question["scenario"], Path(question["folder"]))
    with scratch_folder() as folder:
        done = write_launch_files(source, target, folder, wrapper=wrapper or "torchrun")
        texts = {path.name: path.read_text(encoding="utf-8") for path in done.files}
    return {"files": texts, "misfits": done.misfits, "unsupported": done.unsupported, "notes": done.notes}
