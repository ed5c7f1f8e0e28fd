"""A scenario comes from a stranger: nothing that it names becomes a command of the files that are exported from it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.commands.launch_files import write_launch_files
from windtunnel.errors import BadInput
from windtunnel.exporters.launch import list_server_targets, list_targets
from windtunnel.exporters.servers.target import quoted

RUN = "touch${IFS}canary"
NAMES = (
    f"a/$({RUN})",
    f"a/`{RUN}`",
    f'a/x"}}";{RUN};"',
    f"a/x\n{RUN}\n",
    f"a/x';{RUN};'",
    f'"/$({RUN})"',
    "--trust-remote-code/x",
)
TRAFFIC = {"rate_per_s": 2, "num_requests": 8, "input_tokens": 100, "output_tokens": 10}
PROGRAMS = ("torchrun", "vllm", "vllm-router", "python3", "python", "trtllm-serve", "nginx", "aiperf", "mpirun", "srun")


def hostile(name: str, target: str) -> dict[str, Any]:
    """A scenario whose texts all hold a command."""
    model = catalog.model("meta-llama/Llama-3.1-8B").model_dump(mode="json", exclude_defaults=True)
    model.pop("provenance", None)
    head = {"name": name, "model": {**model, "name": name}, "cluster": {"device": "h100-sxm-80gb", "nodes": 1}}
    if target in list_targets():
        return {**head, "training": {"seq_len": 2048, "global_batch": 8}, "plan": {"zero": 3, "mbs": 1}}
    return {**head, "serving": {"pools": [{"replicas": 2, "plan": {"tp": 1}}], "traffic": TRAFFIC}}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that do nothing."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("target", [*list_targets(), *list_server_targets()])
def test_no_name_of_a_scenario_is_run_by_what_is_exported(target: str, tmp_path: Path, programs: Path) -> None:
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "RECIPE": "a:b", "DEEPSPEED_SCRIPT": "x"}
    started = 0
    for number, name in enumerate(NAMES):
        folder = tmp_path / str(number)
        try:
            done = write_launch_files(hostile(name, target), target, folder)
        except BadInput:
            continue
        for file in done.files:
            if file.suffix == ".sh" and file.name != "serve.sh":  # that one waits for the servers
                subprocess.run(
                    ["bash", file.name], cwd=folder, env={**environment, "MEGATRON_DIR": str(folder)},
                    stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
                )  # fmt: skip
                started += 1
                assert not (folder / "canary").exists(), (name, file.name)
            assert '--trust-remote-code/x"' not in "".join(
                line for line in file.read_text().splitlines() if line.startswith("MODEL=")
            )
    assert started


@pytest.mark.parametrize("text", ['"$(touch x)"', '"`x`"', '"a" "b"', '"a\\"', '"${x:-$(y)}"', '"$((a[$(x)]))"', "$x"])
def test_a_word_with_a_command_is_quoted(text: str) -> None:
    assert quoted(text) == f"'{text}'"


@pytest.mark.parametrize("text", ['"$HERE/x.yaml"', '"http://$HOST:$PORT"', '"$((NODE_RANK * 8))"', '"${PORT}"'])
def test_a_word_with_variables_stays(text: str) -> None:
    assert quoted(text) == text
