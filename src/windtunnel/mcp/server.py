"""The server: tools by name."""

from __future__ import annotations

from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.mcp.tools import Tools

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


def build(tools: Tools) -> Any:
    """The server with its tools.

    Raises:
        BadInput: the package `mcp` is not installed.
    """
    try:
        from mcp.server import MCPServer
    except ImportError:
        raise BadInput(Problem("mcp", "needs the Model Context Protocol: pip install 'windtunnel[mcp]'")) from None
    from windtunnel import __version__

    server = MCPServer(name="windtunnel", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    for name in NAMES:
        server.tool(name=name, structured_output=True)(getattr(tools, name))
    return server
