"""Runs chosen tests in a forked process, with the product damaged or as it is."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest
from mutant_import import install_mutant
from mutant_index import ROOT
from mutant_sites import Site

MEMORY_BYTES = 12 * 2**30
NO_TESTS = int(pytest.ExitCode.NO_TESTS_COLLECTED)


class _Chosen:
    """A pytest plugin that keeps chosen tests, fastest first within a file, and notes the first failure."""

    def __init__(self, order: dict[str, int]) -> None:
        self._order = order
        self.failed = ""
        self.ran = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        files: dict[str, int] = {}
        kept = [item for item in items if item.nodeid in self._order]
        for item in kept:
            file = item.nodeid.split("::")[0]
            files[file] = min(files.get(file, len(self._order)), self._order[item.nodeid])
        items[:] = sorted(kept, key=lambda item: (files[item.nodeid.split("::")[0]], self._order[item.nodeid]))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call"
        if report.failed and not self.failed:
            self.failed = report.nodeid


def preload() -> None:
    """Import what children need and what is not the product, so that a fork has it."""
    for name in ("numba", "pydantic", "yaml", "rich.console", "typer.testing", "scipy.stats", "pandas"):
        __import__(name)


def run_in_child(site: Site | None, batches: list[list[str]], jit: bool, out: Path, temporary: Path) -> None:
    """Run tests in their order until one fails, and write what came of it as JSON; never returns.

    Args:
        site: what to damage; None: nothing.
        batches: node ids, those to run first first; the files of a batch are collected when it begins.
        jit: whether kernels run as machine code.
        out: file for the outcome; what the tests print goes to its neighbour with the suffix `.txt`.
        temporary: empty folder for temporary files.
    """
    status: dict[str, Any] = {"failed": "", "ran": 0, "code": 70}
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        log = os.open(out.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0), os.dup2(log, 1), os.dup2(log, 2)  # type: ignore[func-returns-value]
        os.environ["TMPDIR"] = str(temporary)
        os.chdir(ROOT)
        if not jit:
            os.environ["NUMBA_DISABLE_JIT"] = "1"
            from numba.core import config

            config.DISABLE_JIT = 1
        if site is not None:
            install_mutant(site)
        codes = set()
        for place, batch in enumerate(batches):
            status |= _run(batch, temporary / f"pytest-{place}")
            codes.add(status["code"])
            if status["failed"] or not codes <= {0, NO_TESTS}:
                break
        else:
            status["code"] = min(codes)
    except BaseException as problem:  # a mutant can raise anything, at import too
        status |= {"failed": status["failed"] or f"{type(problem).__name__}: {problem}"}
    finally:
        out.write_text(json.dumps(status), "utf-8")
        sys.stdout.flush()
        os._exit(0)


def _run(tests: list[str], temporary: Path) -> dict[str, Any]:
    chosen = _Chosen({id: place for place, id in enumerate(tests)})
    files = list(dict.fromkeys(id.split("::")[0] for id in tests))
    off = [f"-pno:{name}" for name in ("cacheprovider",)]
    options = ["-x", "-q", "--benchmark-disable", "--tb=line", "-m", "not slow", f"--basetemp={temporary}"]
    code = pytest.main([*options, *off, *files], plugins=[chosen])
    return {"failed": chosen.failed, "ran": chosen.ran, "code": int(code)}
