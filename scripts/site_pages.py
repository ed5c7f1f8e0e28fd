"""Copy docs/ to where the site is built from, with evidence left out of the search.

    python scripts/site_pages.py build/docs

Evidence (tables that prove figures: all of docs/generated but the reference, and pages that `EVIDENCE` names) stays a
page that others link to. It is most of the words, so that a search for a user's word would find little else.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
EVIDENCE = (
    "accuracy/serving-calibrated.md",
    "accuracy/serving-judges.md",
    "accuracy/serving-left-out.md",
    "accuracy/serving-memory.md",
)
OUT_OF_SEARCH = "---\nsearch:\n  exclude: true\n---\n\n"


def is_evidence(page: Path) -> bool:
    """Whether a page, relative to docs/, holds tables that prove figures.

    Args:
        page: For example `generated/coefficients.md`.
    """
    return page.as_posix() in EVIDENCE or (page.parts[0] == "generated" and page.parts[1] != "reference")


def copy(target: Path) -> None:
    """Write the pages of the site.

    Args:
        target: Folder, which is written anew.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target)
    for page in target.rglob("*.md"):
        if is_evidence(page.relative_to(target)):
            page.write_text(OUT_OF_SEARCH + page.read_text("utf-8"), "utf-8")


if __name__ == "__main__":
    copy(Path(sys.argv[1]))
