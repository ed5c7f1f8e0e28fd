"""Arguments of `vllm serve` and `vllm bench serve`, read by vLLM's own parsers. usage: CASES.json, PYTHONPATH."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import absent

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
# imported before the stand-ins: what these libraries look for themselves must stay absent
import fastapi  # noqa: F401
import numpy  # noqa: F401
import transformers  # noqa: F401

absent.install(
    os.environ["PYTHONPATH"],
    "amdsmi",
    "libtpu",
    "tpu_info",
    "torch_xla",
    "habana_frameworks",
    "rich",
    "intel_extension_for_pytorch",
    "pathwaysutils",
    "vllm",
    "org",
)
import vllm.platforms.interface  # noqa: E402

vllm.platforms.interface.UnspecifiedPlatform.device_type = "cuda"  # as if a device were there
from vllm.benchmarks.serve import add_cli_args  # noqa: E402
from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402

try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser
try:
    from vllm.entrypoints.common.cli_args import make_arg_parser
except ImportError:
    from vllm.entrypoints.openai.cli_args import make_arg_parser


def plain(value: Any) -> Any:
    """A setting as JSON holds it."""
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    if hasattr(value, "__dict__"):
        return {key: plain(inner) for key, inner in vars(value).items() if not key.startswith("_")}
    return str(value)


def parsed(case: dict[str, Any]) -> dict[str, Any]:
    """What the parser makes of one case."""
    parser = FlexibleArgumentParser()
    if case["program"] == "bench":
        add_cli_args(parser)
        given = parser.parse_args(case["arguments"])
        return {key: plain(value) for key, value in vars(given).items()}
    make_arg_parser(parser)
    given = parser.parse_args(case["arguments"])
    engine = AsyncEngineArgs.from_cli_args(given)
    return {key: plain(value) for key, value in vars(engine).items()}


out = []
for case in json.loads(Path(sys.argv[1]).read_text("utf-8")):
    try:
        with contextlib.redirect_stdout(sys.stderr):
            out.append({"error": None, "read": parsed(case)})
    except (SystemExit, Exception) as error:
        out.append({"error": f"{type(error).__name__}: {error}", "read": {}})
print(json.dumps(out))
