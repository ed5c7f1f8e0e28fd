"""Import every file of `public_files.yaml` and write how it went by format: `make corpus`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from public_files import NOTHING, Outcome, Snapshots, entries, outcome  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "accuracy" / "imports.md"
BEGIN, END = "<!-- corpus: begin -->", "<!-- corpus: end -->"
LEAST_READ = 380
DRAWS = {"first": "First draw", "later": "Later draw"}
SERVERS, MEGATRON = ("vllm", "sglang"), ("megatron", "megatron_bridge")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the corpus; returns 0 whatever the figures are, 2 without snapshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=Path, default=HERE / "public_files.yaml", help="entries")
    parser.add_argument(
        "--snapshots",
        type=Path,
        default=os.environ.get("WINDTUNNEL_SNAPSHOTS"),
        help="folder of clones, OWNER/NAME or OWNER+NAME each (WINDTUNNEL_SNAPSHOTS)",
    )
    parser.add_argument("--draw", choices=[*DRAWS], help="only this draw")
    parser.add_argument("--only", default="", help="only paths and formats that hold this text")
    parser.add_argument("--page", type=Path, help=f"page to write, such as {PAGE.name}")
    parser.add_argument("--out", type=Path, help="folder for outcomes.jsonl, a line a file")
    chosen = parser.parse_args(arguments)
    if chosen.snapshots is None or not chosen.snapshots.is_dir():
        print("no folder of snapshots: SNAPSHOTS=FOLDER with clones as OWNER/NAME", file=sys.stderr)
        return 2
    found = []
    with tempfile.TemporaryDirectory() as folder:
        snapshots = Snapshots(chosen.snapshots, Path(folder))
        for entry in entries(chosen.list):
            if chosen.draw in (None, entry.draw) and chosen.only in f"{entry.kind} {entry.repository}/{entry.path}":
                found.append(outcome(entry, snapshots.file(entry)))
        lines = [line(each, folder) for each in found]
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "outcomes.jsonl").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    text = summary(found)
    if chosen.page:
        before, _, rest = chosen.page.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        chosen.page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", "utf-8")
    print(text)
    return 0


def line(each: Outcome, folder: str) -> str:
    """An outcome as a line of JSON, without places of this machine."""
    entry = each.entry
    why = each.why.replace(f"{folder}/", "")
    shown = {"repository": entry.repository, "path": entry.path, "draw": entry.draw, "format": entry.kind}
    shown |= {"result": each.result, "why": why, "options": list(each.options), "cpu_s": round(each.cpu_s, 3)}
    return json.dumps(shown | {"resolved": each.resolved, "model": entry.expected["model"]})


def summary(found: Sequence[Outcome]) -> str:
    """The tables by draw and format, and the limits, as Markdown."""
    read = [each for each in found if each.result != "missing"]
    parts = [
        f"Run on {time.strftime('%Y-%m-%d')}: {len(read)} of {len(found)} files read"
        + ("." if len(read) >= LEAST_READ else f", fewer than {LEAST_READ}: the limits below count as missed.")
    ]
    for draw, title in DRAWS.items():
        drawn = [each for each in found if each.entry.draw == draw]
        if drawn:
            parts += [f"### {title}", _table(drawn), _limits([x for x in drawn if x.result != "missing"])]
    unknown = sorted({str(x.entry.expected["model"]) for x in read if x.resolved is False and x.entry.kind != NOTHING})
    if unknown:
        shown = textwrap.fill(", ".join(unknown) + ".", 118, break_long_words=False, break_on_hyphens=False)
        parts += ["### Models that these files name and that do not resolve", shown]
    return "\n\n".join(parts) + "\n"


def _table(found: Sequence[Outcome]) -> str:
    kinds = Counter(each.entry.kind for each in found)
    rows = [
        "| format | files | right | right with the option named | wrong | refused | not had | CPU s, most |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows += [_row(kind, [x for x in found if x.entry.kind == kind]) for kind, _ in kinds.most_common()]
    return "\n".join([*rows, _row("all", found)])


def _row(name: str, found: Sequence[Outcome]) -> str:
    count = Counter(each.result for each in found)
    cells = [name, len(found), count["right"], count["given"], count["wrong"]]
    cells += [count["refused"] + count["failed"], count["missing"], f"{max(x.cpu_s for x in found):.2f}"]
    return f"| {' | '.join(map(str, cells))} |"


def _limits(read: Sequence[Outcome]) -> str:
    """Shares beside what is asked of them."""
    wrong = [x for x in read if x.result == "wrong"]
    launches = [x for x in read if x.entry.kind != NOTHING]
    named = [x for x in launches if x.resolved is not None]
    slowest = max((x.cpu_s for x in read), default=0.0)
    return "\n".join(
        [
            "| share of the files read | is | asked |",
            "|---|---|---|",
            _share("right, or right with the option that the message names", _good(read), read, "≥ 80 %"),
            _share("the same of files that start a training or a server", _good(launches), launches, "–"),
            _share("silently wrong: imported, and one of the ten fields differs", wrong, read, "≤ 1 %"),
            _share("vLLM and SGLang", _good(_of(read, SERVERS)), _of(read, SERVERS), "≥ 90 %"),
            _share("Megatron-LM and Megatron-Bridge", _good(_of(read, MEGATRON)), _of(read, MEGATRON), "≥ 90 %"),
            _share("names of models that resolve", [x for x in named if x.resolved], named, "≥ 85 %"),
            f"| CPU s of the slowest import | {slowest:.2f} | ≤ 2 |",
        ]
    )


def _good(found: Iterable[Outcome]) -> list[Outcome]:
    return [x for x in found if x.result in ("right", "given")]


def _of(found: Iterable[Outcome], kinds: Sequence[str]) -> list[Outcome]:
    return [x for x in found if x.entry.kind in kinds]


def _share(name: str, part: Sequence[Outcome], whole: Sequence[Outcome], asked: str) -> str:
    percent = f"{100 * len(part) / len(whole):.1f} %" if whole else "–"
    return f"| {name} | {percent} ({len(part)} of {len(whole)}) | {asked} |"


if __name__ == "__main__":
    sys.exit(main())
