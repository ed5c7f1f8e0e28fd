"""The server: tools by name."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, get_type_hints

from windtunnel.errors import BadInput, Problem
from windtunnel.mcp.summaries import failure
from windtunnel.mcp.tools import Tools
from windtunnel.servers.workers import Busy, Died, Workers

INSTRUCTIONS = (
    "Predicts how training and serving of large models run on parallel hardware: time, memory, power, money, failures. "
    "A scenario is a mapping with model, cluster, and training or serving (scenario_schema tells all fields; "
    "catalog_search finds ids). Every prediction has an interval, a confidence and what was assumed."
)
NAMES = (
    "predict_training", "predict_serving", "fit", "run", "cluster", "learn", "reason", "advise", "explain",
    "compare", "scenario_validate", "scenario_schema", "catalog_search", "cite", "import_config", "export_launch",
    "plan", "sweep_start", "sweep_query", "job_status", "job_cancel",
)  # fmt: skip
"""Tools of the server."""


WITH_JOBS = frozenset({"plan", "sweep_start", "job_status", "job_cancel"})
"""Tools that start or ask the server's own jobs; the others run in processes."""
AT_ONCE = 2
MOST_WAITING = 32
LIMIT_S = 600.0
_calls = itertools.count(1)


def workers_of(tools: Tools) -> Workers:
    """Processes for the tools' work: a few at once, ended where a call is cancelled."""
    return Workers(
        "windtunnel.mcp.worker",
        count=AT_ONCE,
        limit_s=LIMIT_S,
        grace_s=0.0,
        most_waiting=MOST_WAITING,
        scope=tools.scope,
        folder=tools.jobs.folder,
    )


def in_processes(tools: Tools, name: str, workers: Workers) -> Callable[..., Any]:
    """A tool as a coroutine of the same signature, whose work is done in a process."""
    tool = getattr(tools, name)
    kind = get_type_hints(tool)["return"]

    @functools.wraps(tool)
    async def called(**arguments: Any) -> Any:
        question = {
            "tool": name,
            "arguments": arguments,
            "root": str(tools.root) if tools.root else None,
            "allow_write": tools.allow_write,
            "allow_code": tools.allow_code,
        }
        try:
            return kind.model_validate(await workers.ask(question, f"call {next(_calls)}"))
        except Busy:
            rule = f"{MOST_WAITING} calls are waiting; call again later"
        except TimeoutError:
            rule = f"took longer than {LIMIT_S:.0f} s; plan and sweep_start work in the background"
        except Died:
            rule = "the process that worked on it ended"
        return kind.model_validate({"ok": False, "problems": failure(BadInput(Problem("", rule)))})

    called.__signature__ = inspect.signature(tool, eval_str=True)  # type: ignore[attr-defined]
    return called


def build(tools: Tools, workers: Workers | None = None) -> Any:
    """The server with its tools.

    Args:
        tools: what they do.
        workers: processes that do their work; absent: those of `workers_of`.

    Raises:
        BadInput: the package `mcp` is not installed.
    """
    try:
        from mcp.server import MCPServer
    except ImportError:
        raise BadInput(Problem("mcp", "needs the Model Context Protocol: pip install 'windtunnel[mcp]'")) from None
    from windtunnel import __version__

    server = MCPServer(name="windtunnel", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    workers = workers or workers_of(tools)
    for name in NAMES:
        tool = getattr(tools, name) if name in WITH_JOBS else in_processes(tools, name, workers)
        server.tool(name=name, structured_output=True)(tool)
    return server
