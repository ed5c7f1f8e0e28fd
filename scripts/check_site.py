"""Links of a built documentation site that lead nowhere: pages, files and anchors that are not there.

    python scripts/check_site.py site

Prints one line a dead link, as `page: target`, and ends with exit code 1 where there are any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ATTRIBUTES = {"a": "href", "link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src"}


class _Page(HTMLParser):
    """Targets and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag leads to and what it is called."""
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        target = given.get(ATTRIBUTES.get(tag, ""))
        if target is not None:
            self.targets.append(target)


def dead_links(site: Path) -> Iterator[tuple[str, str]]:
    """(page, target) of each link inside a site that leads nowhere; links to other sites are not followed.

    Args:
        site: Folder of the built site.
    """
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    root = site.resolve()
    for path, page in pages.items():
        if path == root / "404.html":  # is shown at any address, and links from the site's own
            continue
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = _place(root, path, unquote(parts.path))
            missing = place is None or (parts.fragment and place in pages and not _has(pages[place], parts.fragment))
            if missing:
                yield str(path.relative_to(root)), target


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def _place(root: Path, page: Path, target: str) -> Path | None:
    """The file that a target means; None where there is none, or where it leaves the site."""
    if not target:
        return page
    place = (root / target.lstrip("/") if target.startswith("/") else page.parent / target).resolve()
    if place.is_dir():
        place /= "index.html"
    return place if place.is_relative_to(root) and place.is_file() else None


def _has(page: _Page, fragment: str) -> bool:
    return unquote(fragment) in page.anchors or fragment in page.anchors or fragment.startswith(":~:")


def main() -> None:
    """Check one site."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    if not (site / "index.html").is_file() and not list(site.rglob("*.html")):
        sys.exit(f"{site}: has no pages")
    found = list(dead_links(site))
    for page, target in found:
        print(f"{page}: {target}")
    if found:
        sys.exit(f"{len(found)} dead links")


if __name__ == "__main__":
    main()
