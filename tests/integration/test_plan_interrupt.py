"""Ctrl-C during `plan`, sent to a process of its own: what was found so far is printed, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow
SCENARIO = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {"space": {"tp": [1, 2], "pp": [2], "vpp": [1, 2, 4, 8, 16], "cp": [1], "mbs": [1]}},
}
SLOW = """
import sys, time
import windtunnel.planner.{module} as module
quick = module.{name}
def slow(*args, **kwargs):
    out = quick(*args, **kwargs)
    print("at {name}", file=sys.stderr, flush=True)
    time.sleep({pause})
    return out
module.{name} = slow
from windtunnel.cli.main import main
main()
"""
"""The command line, with a pause in which a signal arrives for certain."""


def interrupted(tmp_path: Path, module: str, name: str, pause: float, times: int, *extra: str) -> tuple[int, str, str]:
    """Exit code, standard output and error of a search that gets SIGINT when `name` was called `times` times."""
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    code = SLOW.format(module=module, name=name, pause=pause)
    command = [sys.executable, "-c", code, "plan", str(path), "--json", *extra]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None and process.stdout is not None
        seen, lines = 0, []
        while seen < times:
            line = process.stderr.readline()
            assert line, "".join(lines)
            lines.append(line)
            seen += line.startswith(f"at {name}")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    return process.returncode, out, "".join(lines) + err


def test_a_search_ends_with_the_best_so_far(tmp_path: Path) -> None:
    best = tmp_path / "best.yaml"
    code, out, err = interrupted(tmp_path, "search.branch_and_bound", "evaluate", 1.0, 2, "--output", str(best))
    assert code == 0, err
    data = json.loads(out)
    proof = data["proof"]
    assert not proof["complete"] and proof["simulated"] < 5 and 0 < proof["gap"] < 0.2 and proof["open"] > 0
    assert data["best"]["step_time_s"] == proof["best_s"]
    assert "stopped: the best plan so far follows; one up to" in err and "Traceback" not in err
    assert yaml.safe_load(best.read_text())["plan"]["pp"] == 2


@pytest.mark.parametrize("where", [("search.branch_and_bound", "bounded"), ("plan_training", "load")])
def test_before_there_is_a_plan_a_line_says_so(tmp_path: Path, where: tuple[str, str]) -> None:
    code, out, err = interrupted(tmp_path, *where, 30.0, 1)
    assert code == 130 and out == ""
    assert "there is no plan to show" in err and "Traceback" not in err


def test_what_follows_the_search_may_be_cut_short(tmp_path: Path) -> None:
    code, out, err = interrupted(tmp_path, "plan_one_cluster", "choose", 30.0, 1)
    assert code == 0, err
    data = json.loads(out)
    assert data["proof"]["complete"] and data["why"] is None and "Traceback" not in err
