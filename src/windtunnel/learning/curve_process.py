"""Curves in processes of their own, which import nothing of the caller's: scripts and notebooks need no guard."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

from windtunnel.learning.curves import CurveKey, Learned, learn_curve

_CHILD = "from windtunnel.learning.curve_process import serve; serve()"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def learn_apart(key: CurveKey) -> Learned | None:
    """Learn a curve in a process of its own.

    Returns:
        None where that process failed: it does not know a task that only this one has registered, or was stopped.
    """
    package = str(Path(__file__).parents[2])
    paths = [package, *(p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)]
    env = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _CHILD],
        input=pickle.dumps(key),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        check=False,
    )
    if done.returncode != 0:
        return None
    learned: Learned = pickle.loads(done.stdout)
    return learned


def serve() -> None:
    """Read a key from standard input, learn its curve, and write it to standard output."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not mix with the answer
    key: CurveKey = pickle.load(sys.stdin.buffer)
    out.write(pickle.dumps(learn_curve(key)))
    out.close()
