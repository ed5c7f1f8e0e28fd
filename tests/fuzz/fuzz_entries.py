"""Six entry points, asked in this process: what they answer, and what is wrong with that."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fuzz_cases
import fuzz_schema as schema

NO_ANSWER = "no answer"
"""What an entry point gives in the place of an answer where it is told what is wrong."""
_NOT_BELOW_ZERO = re.compile(r"(?<!per)(_s|_seconds|_bytes|_tokens|_flops|_w|_j|_usd|_dollars)$")
_MAY_BE_NEGATIVE = re.compile(
    r"delta|differ|gap|change|saved|slack|margin|error|residual|offset|term|by_|less|headroom|low|worth"
)
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]")
"""What a terminal obeys."""
_INTERNAL = re.compile(r"internal error|Traceback \(most recent")
_FRAME = re.compile(r'File "[^"]*/(windtunnel/[^"]+|\w+/[^"/]+)", line \d+, in (\w+)')
errors: list[str] = []
"""Tracebacks of errors that are none of the user's, of the case that runs."""


def signature(text: str) -> str:
    """A traceback by its error and the place that raised it; any other fault by its first words."""
    if "Traceback" not in text:
        return re.sub(r"\d+(\.\d+)?", "N", text.splitlines()[0][:90] if text else "")
    frames = [found for found in _FRAME.findall(text) if found[0].startswith("windtunnel/")] or _FRAME.findall(text)
    last = text.strip().splitlines()[-1]
    last = re.sub(r"\d+(\.\d+)?", "N", last[:90]) if last.startswith("AssertionError") else last.split(":")[0]
    return f"{last} in {frames[-1][0]}:{frames[-1][1]}" if frames else last


@contextlib.contextmanager
def recorded() -> Iterator[None]:
    """Keep the traceback of every error that an entry point calls internal."""
    from windtunnel.error_records import problems_of

    with contextlib.suppress(ModuleNotFoundError):  # an environment without the extra `studio`
        pass

    def watched(error: Exception) -> Any:
        problems, code = problems_of(error)
        if code == 1:
            errors.append("".join(traceback.format_exception(error)))
        return problems, code

    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("windtunnel.")]
    modules = [module for module in loaded if module.__dict__.get("problems_of") is problems_of]
    for module in modules:
        module.problems_of = watched  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in modules:
            module.problems_of = problems_of  # type: ignore[attr-defined]


def judged(case: dict[str, Any]) -> str:
    """What is wrong with how a case ends; empty where nothing is."""
    errors.clear()
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="windtunnel-fuzz-") as folder, recorded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            answer = _ASK[case["entry"]](case)
        except Exception:
            return errors[0] if errors else traceback.format_exc()
        finally:
            os.chdir(before)
    if errors:
        return errors[0]
    return nonsense(answer, case)


def nonsense(answer: Any, case: dict[str, Any]) -> str:
    """What an answer holds that cannot be; empty where it is sound, and for a refusal."""
    if answer == NO_ANSWER:
        return ""
    if found := _wrong_number(answer, ""):
        return found
    where = {key: case[key] for key in ("scenario", "set") if key in case}
    text = json.dumps(where, default=str)
    if f'"{schema.UNKNOWN}":' in text and case.get("command") in fuzz_cases.commands():
        return f"a result although {_place_of(where, ())} is no field"
    return ""


def _place_of(data: Any, path: tuple[Any, ...]) -> str:
    if isinstance(data, dict) and schema.UNKNOWN in data:
        return ".".join(map(str, path))
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return next((found for key, inner in entries if (found := _place_of(inner, (*path, key)))), "")


def _wrong_number(value: Any, path: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"{path} is {value}"
    if isinstance(value, int | float) and not isinstance(value, bool) and value < -1e-9:
        name = path.rsplit(".", 1)[-1]
        if _NOT_BELOW_ZERO.search(name) and not _MAY_BE_NEGATIVE.search(path):
            return f"{path} is {value}"
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        if isinstance(inner, dict | list | float | int) and (found := _wrong_number(inner, f"{path}.{key}".strip("."))):
            return found
    return ""


# -- entry points


def _cli(case: dict[str, Any]) -> Any:
    from windtunnel.cli.main import run

    arguments = list(case.get("arguments", ()))
    for name, text in case.get("files", {}).items():
        _write(name, text.encode("latin-1"))
    if "scenario" in case:
        name = f"s.{case.get('as', 'yaml')}"
        _write(name, fuzz_cases.written(case["scenario"], case.get("as", "yaml")).encode("utf-8", "surrogatepass"))
        arguments = [case["command"], name, "--json", *(w for one in case.get("set", ()) for w in ("--set", one))]
    if "process" in case:
        return _process(arguments, case["process"])
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    for stream in (out, err):
        stream.reconfigure(errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return _printed(code, *(stream.buffer.getvalue().decode() for stream in (out, err)), arguments)  # type: ignore[attr-defined]


def _process(arguments: list[str], environment: dict[str, str]) -> Any:
    words = [os.fsencode(word.encode("utf-8", "replace").decode()) for word in arguments]
    command = [os.fsencode(sys.executable), b"-m", b"windtunnel", *words]
    env = {k: v for k, v in os.environ.items() if k != "WINDTUNNEL_DEBUG"} | environment
    done = subprocess.run(command, capture_output=True, env=env, check=False)
    return _printed(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), arguments
    )


def _printed(code: int | None, out: str, err: str, arguments: list[str]) -> Any:
    """What a command has printed as JSON."""
    if _INTERNAL.search(err) and "out of memory" not in err:
        raise AssertionError(f"exit {code}: {err[-3000:]}") if "Traceback" not in err else _Printed(err)
    if code not in (0, 2, 3, 4):
        raise AssertionError(f"exit {code}: {err[-3000:]}")
    if found := _CONTROL.search(out.replace("\r\n", "\n")) or _CONTROL.search(err):
        raise AssertionError(f"printed the control character {found[0]!r}")
    if "Warning:" in err:
        raise AssertionError(f"a warning: {err[-800:]}")
    if code != 0:
        assert err.strip() or out.strip(), "no word of what is wrong"
        return NO_ANSWER
    return json.loads(out, parse_constant=_no_number) if "--json" in arguments else None


class _Printed(Exception):
    """A traceback that a command has printed."""


def _no_number(name: str) -> Any:
    raise AssertionError(f"JSON with {name}")


def _write(name: str, raw: bytes) -> None:
    import fuzz_files

    if raw == fuzz_files.FOLDER:
        Path(name).mkdir(exist_ok=True)
    else:
        Path(name).write_bytes(raw)


def _python(case: dict[str, Any]) -> Any:
    from windtunnel.commands import COMMANDS
    from windtunnel.errors import BadInput, GateFailed, Infeasible
    from windtunnel.training.results.serialise import plain

    try:
        result = COMMANDS.get(case["command"]).run(
            schema.made(case["scenario"]), tuple(case.get("set", ())), full=False
        )
        found = result.to_dict()
    except (BadInput, Infeasible, GateFailed) as error:
        assert str(error).strip(), "no word of what is wrong"
        return NO_ANSWER
    except MemoryError:
        return NO_ANSWER
    return json.loads(json.dumps(plain(found), allow_nan=False))


def _batch(case: dict[str, Any]) -> Any:
    from windtunnel.batch import answers
    from windtunnel.training.results.serialise import plain

    for found in answers(case["lines"]):
        found = json.loads(
            json.dumps(plain(found), ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
        )
        if not found["ok"]:
            assert found["problems"], "no word of what is wrong"
            return NO_ANSWER
        return found["result"]
    return NO_ANSWER


class InProcess:
    """Workers whose processes are this one."""

    limit_s, scope, folder = 60.0, None, None

    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.answer = answer

    async def warm(self) -> None:
        """Nothing is to be started."""

    async def stop(self) -> None:
        """Nothing is to be ended."""

    async def ask(self, question: dict[str, Any], client: str, number: int = 0) -> dict[str, Any]:
        """An answer that has gone through both pipes."""
        from windtunnel.training.results.serialise import plain

        asked = json.loads((json.dumps(question) + "\n").encode())
        line = json.dumps(plain(self.answer(asked)), ensure_ascii=False, allow_nan=False).encode("utf-8")
        found: dict[str, Any] = json.loads(line)
        found.pop("may_be_kept", None)
        return found


@cache
def _server() -> tuple[Any, Any]:
    from windtunnel.mcp.server import build
    from windtunnel.mcp.tools import Tools
    from windtunnel.mcp.worker import answer

    tools = Tools(allow_write=True)
    return tools, build(tools, InProcess(lambda asked: answer({**asked, "root": str(tools.root)})))  # type: ignore[arg-type]


def _mcp(case: dict[str, Any]) -> Any:
    tools, server = _server()
    tools.root = Path.cwd()
    try:
        found = asyncio.run(server.call_tool(case["tool"], case["arguments"]))
    except Exception as error:
        if type(error).__module__.startswith("mcp.") and "validation error" in str(error):
            return NO_ANSWER
        raise error.__cause__ or error from None
    finally:
        tools.jobs.close()
    data = found if isinstance(found, dict) else getattr(found, "structured_content", None) or {}
    json.dumps(data, allow_nan=False, ensure_ascii=False).encode("utf-8")
    if getattr(found, "is_error", False):
        assert "validation error" in str(found), f"an error of the protocol: {str(found)[:300]}"
    return data.get("figures", NO_ANSWER) if data.get("ok") else NO_ANSWER


def _studio(case: dict[str, Any]) -> Any:
    return asyncio.run(_request(case))


async def _request(case: dict[str, Any]) -> Any:
    from windtunnel.studio.app import Studio
    from windtunnel.studio.worker import answer

    workers = [InProcess(answer) for _ in range(3)]
    studio = Studio(Path.cwd(), None, *workers)  # type: ignore[arg-type]
    await studio.start()
    app, sent = studio.application(), list[dict[str, Any]]()
    body, waits = case["body"].encode("utf-8", "replace"), asyncio.Event()
    path, _, query = case["path"].partition("?")
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if first:
            return first.pop()
        await waits.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    from urllib.parse import unquote

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": case["method"], "scheme": "http",
        "path": unquote(path, errors="replace"), "raw_path": path.encode(), "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }  # fmt: skip
    try:
        await app(scope, receive, send)
        for job in list(studio.jobs.values()):
            await asyncio.wait([job.task])
            if not job.task.cancelled() and (error := job.task.exception()):
                raise error
    finally:
        waits.set()
        await studio.stop()
    status = next(m["status"] for m in sent if m["type"] == "http.response.start")
    raw = b"".join(m.get("body", b"") for m in sent)
    assert status < 500, f"status {status}: {raw[:300]!r}"
    if not raw.startswith(b"{"):
        return NO_ANSWER
    found = json.loads(raw.decode(), parse_constant=_no_number)
    assert found.get("ok", True) or found.get("problems") or found.get("state"), "no word of what is wrong"
    return found.get("result", NO_ANSWER) if found.get("ok") else NO_ANSWER


def _sweep(case: dict[str, Any]) -> Any:
    found = _cli(case)
    if found == NO_ANSWER or "--dry-run" in case["arguments"]:
        return found
    for row in found.get("failures", ()):
        if row["status"] not in ("illegal", "infeasible", "bad_input") and "internal" in str(row["reason"]):
            raise AssertionError(f"a cell: {row['status']}: {row['reason']}")
    return found


_ASK: dict[str, Callable[[dict[str, Any]], Any]] = {
    "cli": _cli,
    "python": _python,
    "batch": _batch,
    "mcp": _mcp,
    "studio": _studio,
    "sweep": _sweep,
}


@cache
def prepare() -> None:
    """Load what several cases need, so that no case waits for it."""
    fuzz_cases.schema.fields()
    for id in fuzz_cases.commands():
        if id not in fuzz_cases.SLOW:
            _python({"command": id, "scenario": json.loads(fuzz_cases._base(id))})
