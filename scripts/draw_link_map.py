"""Draw the guide's map of algorithms over links and print its table: `python scripts/draw_link_map.py docs/img`."""

from __future__ import annotations

import sys
from pathlib import Path

from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.models.learning.link_map import algorithm_chart, delay_text, link_map, rate_text, short_name


def main(folder: Path) -> None:
    """A model of 1B with steps of half a second, on four workers."""
    found = link_map(Target(step_s=0.5, layers=stated_layers(1e9, 16)), 4)
    algorithm_chart(found).save(folder / "which-algorithm-for-my-link.svg")
    rates = [rate_text(g) for g in found.gbits]
    print("| latency | " + " | ".join(rates) + " |")
    print("|---|" + "---|" * len(rates))
    for delay, row in zip(found.latencies_s, found.chosen(), strict=True):
        names = ["–" if i is None else short_name(found.candidates[i].name) for i in row]
        print(f"| {delay_text(delay)} | " + " | ".join(names) + " |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
