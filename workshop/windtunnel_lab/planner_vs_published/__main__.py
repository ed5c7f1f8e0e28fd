"""The planner against every measured group.

Run `python -m windtunnel_lab.planner_vs_published ROWS… --out FILE.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from windtunnel.errors import BadInput
from windtunnel.validation.rows.row_files import load_rows, with_shipped
from windtunnel_lab.planner_vs_published.compare import Outcome, compare, identity, outcome_of
from windtunnel_lab.planner_vs_published.groups import Group, groups, kind_of, same_kind
from windtunnel_lab.planner_vs_published.page import page


def done_before(path: Path) -> dict[str, Outcome]:
    """Outcomes of an earlier run; a last line that was cut off does not count."""
    found: dict[str, Outcome] = {}
    for line in path.read_text("utf-8").splitlines() if path.is_file() else []:
        try:
            outcome = outcome_of(json.loads(line))
        except (ValueError, TypeError, KeyError):
            continue
        found[outcome.key] = outcome
    return found


def run(todo: Sequence[tuple[Group, Sequence[Group]]], jobs: int) -> Iterator[Outcome]:
    """Outcomes in the order of the groups."""
    if jobs <= 1:
        yield from (compare(group, others) for group, others in todo)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(compare, *zip(*todo, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Search the space of every group of rows that differ in their plan alone; write the table."""
    parser = argparse.ArgumentParser(prog="python -m windtunnel_lab.planner_vs_published", description=main.__doc__)
    parser.add_argument("rows", type=Path, nargs="*", help="JSON lists of measured rows, beside those that ship")
    parser.add_argument("--out", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--lines", type=Path, help="JSON lines, one a group, kept as it goes (default: OUT.jsonl)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--family", action="append", default=[], help="only these families of rows")
    parser.add_argument("--limit", type=int, help="search at most so many groups that are not done yet")
    options = parser.parse_args(arguments)
    try:
        rows = [row for path in options.rows for row in load_rows(path)]
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    everything = groups(with_shipped(rows))
    wanted = [g for g in everything if not options.family or set(options.family) & set(g.families)]
    lines = options.lines or options.out.with_suffix(".jsonl")
    found = done_before(lines)
    alike = same_kind(everything)
    asked = {identity(g, alike[kind_of(g)]): (g, alike[kind_of(g)]) for g in wanted}
    todo = [pair for key, pair in asked.items() if key not in found][: options.limit]
    with lines.open("a", encoding="utf-8") as out:
        for number, outcome in enumerate(run(todo, options.jobs), 1):
            found[outcome.key] = outcome
            out.write(json.dumps(outcome.to_dict()) + "\n")
            out.flush()
            print(f"{number}/{len(todo)} {outcome.model} {outcome.verdict} {outcome.gain:+.1%}", file=sys.stderr)
    outcomes = [found[key] for key in asked if key in found]
    options.out.write_text(page(outcomes), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
