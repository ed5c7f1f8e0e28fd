"""Arguments of `sglang.launch_server`, read by SGLang's own parser. usage: CASES.json, PYTHONPATH."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import absent
import fastapi  # noqa: F401
import numpy  # noqa: F401
import transformers  # noqa: F401

absent.install(
    os.environ["PYTHONPATH"], "amdsmi", "torch_npu", "habana_frameworks", "torch_xla", "torch_musa", "org", "sglang"
)
from sglang.srt.server_args import ServerArgs  # noqa: E402


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What the parser makes of one case."""
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    given = parser.parse_args(arguments)
    return {
        key: value if isinstance(value, str | int | float | bool) else str(value) for key, value in vars(given).items()
    }


out = []
for case in json.loads(Path(sys.argv[1]).read_text("utf-8")):
    try:
        with contextlib.redirect_stdout(sys.stderr):
            out.append({"error": None, "read": parsed(case["arguments"])})
    except (SystemExit, Exception) as error:
        out.append({"error": f"{type(error).__name__}: {error}", "read": {}})
print(json.dumps(out))
