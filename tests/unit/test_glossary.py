"""Every term of an output table stands in docs/glossary.md."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

import windtunnel as wt
from windtunnel.views import serve, train
from windtunnel.writers.terminal import render

ROOT = Path(__file__).parents[2]
SECTIONS = "plan cluster training serving pools kv limits traffic router autoscale transfer engine".split()
OF_THE_SCENARIO = re.compile(rf"^({'|'.join(SECTIONS)})\b")
"""First column of the table of assumptions: fields of a scenario, which the schema explains."""


def glossary() -> set[str]:
    text = (ROOT / "docs/glossary.md").read_text("utf-8")
    cells = re.findall(r"^\| ([^|]+) \|", text, flags=re.M)
    return {term.strip().lower() for cell in cells for term in cell.split(",")}


def printed(what: object) -> str:
    out = io.StringIO()
    Console(file=out, width=160, highlight=False, no_color=True).print(what)
    return out.getvalue().split("\nMethods used")[0]


def terms(text: str) -> set[str]:
    """First cells of rows and headlines, and the cells of header lines."""
    body = text.split("\n\n", 1)[1].split("\nAssumed", maxsplit=1)[0]
    found = set()
    for line in body.splitlines():
        row = re.match(r"^ {0,2}([A-Za-z][\w/ -]*?) {2,}\S", line)
        if row:
            found.add(row[1].strip().lower())
    return {term for term in found if not OF_THE_SCENARIO.match(term)}


@pytest.mark.parametrize("name", ["llama3-70b-64xh100", "qwen3-30b-a3b-16xh100-moe", "gpt3-13b-16xa100-one-port"])
def test_terms_of_training_output_are_explained(name: str) -> None:
    shown = terms(printed(render(train.view(wt.simulate_training(ROOT / f"examples/{name}.yaml")))))
    headings = {"where the time goes", "memory at the peak", "what 10 % more would buy", "stages"}
    assert len(shown) > 20
    assert shown - headings <= glossary()


@pytest.mark.parametrize("name", ["llama3-70b-4xh100", "split-llama3-70b-16xh100"])
def test_terms_of_serving_output_are_explained(name: str) -> None:
    shown = terms(printed(render(serve.view(wt.simulate_serving(ROOT / f"examples/serving/{name}.yaml")))))
    assert len(shown) > 14
    assert shown - {"latencies"} <= glossary()
