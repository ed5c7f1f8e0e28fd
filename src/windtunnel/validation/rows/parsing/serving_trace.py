"""Recorded requests of serving rows: arrivals and lengths, as the two kinds of record write them."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.errors import BadInput
from windtunnel.serving.event_loop.requests import Requests


@cache
def _columns(path: Path) -> tuple[Floats, Int32s, Int32s]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadInput(f"trace = {path.name}: {error.strerror or error}") from error
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        at, given, made = ("queued_ts", "input_toks", "output_toks")
    else:
        lines = list(csv.DictReader(text.splitlines()))
        at, given, made = ("arrival_s", "input_tokens", "output_tokens_measured")
    try:
        arrivals = np.array([float(line[at]) for line in lines])
        prompts = np.array([int(line[given]) for line in lines], np.int32)
        answers = np.array([int(line[made]) for line in lines], np.int32)
    except KeyError as error:
        raise BadInput(f"trace = {path.name}: has no column {error}") from error
    known = answers > 0
    return arrivals[known] - arrivals.min(), prompts[known], answers[known]


def recorded(path: Path) -> Requests:
    """The requests of a record, in seconds after its first one; requests without an answer are left out.

    Raises:
        BadInput: no such file, or not one of the known kinds.
    """
    arrivals, prompts, answers = _columns(path)
    return Requests(arrival_s=arrivals.copy(), input_tokens=prompts.copy(), output_tokens=answers.copy())
