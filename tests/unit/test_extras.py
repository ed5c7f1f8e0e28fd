"""What an installation without extras says, and what no installation does."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.extras import EXTRAS, USES, extra

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "examples" / "llama3-8b-8xh100-fsdp.yaml"
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from windtunnel.cli.main import run
sys.exit(run({words!r}))
"""


def without(names: set[str], *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a Python that lacks some modules."""
    code = WITHOUT.format(names=names, words=list(words))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_every_extra_is_declared_for_its_module() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert EXTRAS.keys() == USES.keys()
    for module, name in EXTRAS.items():
        assert any(one.startswith(module.replace("_", "-")) for one in declared[name])


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(BadInput, match=r"pip install 'windtunnel\[sweep\]'"):
        extra("duckdb")


def test_the_core_predicts_without_extras_and_says_what_a_report_needs(tmp_path: Path) -> None:
    told = without({"pandas", "duckdb", "vl_convert"}, "train", str(TRAIN), "--json")
    assert told.returncode == 0, told.stderr
    told = without({"vl_convert"}, "train", str(TRAIN), "--report", str(tmp_path / "report.html"))
    assert told.returncode == 2
    (line,) = [one for one in told.stderr.splitlines() if one.startswith("error")]
    assert "pip install 'windtunnel[report]'" in line
    told = without({"duckdb"}, "sweep", str(TRAIN), "--vary", "plan.mbs=1,2", "--out", str(tmp_path / "runs"))
    assert told.returncode == 2
    assert "pip install 'windtunnel[sweep]'" in told.stderr


def test_nothing_opens_a_connection_but_the_servers() -> None:
    """No telemetry: only the servers, which listen on the loopback address, use modules of the network."""
    network = {"socket", "http", "urllib", "requests", "aiohttp", "httpx", "ftplib", "smtplib", "telnetlib", "xmlrpc"}
    network |= {"socketserver", "urllib3", "websockets", "ssl", "asyncio"}
    harmless = {"urllib.parse", "http.cookies"}
    found: dict[str, set[str]] = {}
    source = ROOT / "src" / "windtunnel"
    for path in [*source.rglob("*.py"), *(ROOT / "workshop" / "windtunnel_lab").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            used = {name for name in names if name.partition(".")[0] in network and name not in harmless}
            if used:
                found.setdefault(
                    path.relative_to(source).as_posix() if source in path.parents else "lab", set()
                ).update(used)
    servers = {name for name in found if name.startswith(("studio/", "mcp/", "servers/"))}
    assert servers
    assert {name: found[name] for name in found.keys() - servers} == ALLOWED


ALLOWED = {"sweeps/store.py": {"socket"}, "sweeps/compute.py": {"socket"}, "calibration/ranks.py": {"socket"}}
"""Modules outside the servers → what they use of the network: the name of the machine, and a free port on the loopback
address for processes that measure collectives of this machine."""
