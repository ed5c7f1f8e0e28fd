"""How long advice takes, warm. `python benchmarks/bench_advise.py`

The bar is 10 s for the training scenario of a 70B model with every technique of the registry (docs/guide/advise.md).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from windtunnel.advice import advise

EXAMPLES = Path(__file__).parent.parent / "examples"
CASES = (
    ("training, 70B on 64 H100", EXAMPLES / "llama3-70b-64xh100.yaml", None, 10.0),
    ("training, the same, for memory", EXAMPLES / "llama3-70b-64xh100.yaml", "memory", 10.0),
    ("training, 70B that does not fit", EXAMPLES / "does-not-fit-70b-8xh100.yaml", None, 10.0),
    ("serving, 70B chat on 8 H100", EXAMPLES / "serving/chat-llama3-70b-8xh100.yaml", "ttft", 30.0),
)


def main() -> None:
    """Print seconds of the second run of each case."""
    print(f"load average {os.getloadavg()[0]:.1f}")
    print(f"{'case':36} {'wall':>8} {'CPU':>8} {'bar':>6} {'simulated':>10} {'suggested':>10}")
    for title, path, objective, bar in CASES:
        advise(path, objective=objective, pairs=False)
        wall, cpu = time.perf_counter(), time.process_time()
        found = advise(path, objective=objective)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        listed = len(found.suggestions) + len(found.settings) + len(found.pairs) + len(found.unlike)
        print(f"{title:36} {wall:7.1f}s {cpu:7.1f}s {bar:5.0f}s {found.tried:10} {listed:10}")


if __name__ == "__main__":
    main()
