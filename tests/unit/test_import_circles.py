"""No modules import each other in a circle, inside packages too: `lint-imports` holds the order between packages."""

from __future__ import annotations

import grimp

FACE = "windtunnel.catalog"
"""Looks devices, links and clusters up for its own modules, which call it back: a cluster may name another."""
TYPED_CIRCLES = {
    frozenset(f"windtunnel.serving.event_loop.{name}" for name in circle.split())
    for circle in (
        "checks fleet_control kv_transfer_events loop_rules reference",
        "recorder swapping twin.instance twin.iteration_time twin.pins twin.pipeline twin.queue",
    )
}
"""State of the twin and what acts on it name each other in annotations alone."""


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of modules that reach each other: strongly connected components of more than one."""
    reach: dict[str, set[str]] = {}
    for start in edges:
        seen, left = set(), [start]
        while left:
            for other in edges.get(left.pop(), set()) - seen:
                seen.add(other)
                left.append(other)
        reach[start] = seen
    return {
        frozenset(other for other in reach[one] if one in reach.get(other, set())) for one in reach if one in reach[one]
    }


def imports(*, with_types: bool) -> dict[str, set[str]]:
    graph = grimp.build_graph("windtunnel", exclude_type_checking_imports=not with_types, cache_dir=None)
    return {m: graph.find_modules_directly_imported_by(m) - {FACE} for m in graph.modules - {FACE}}


def test_circles_are_found() -> None:
    chain = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circles(chain) == {frozenset("bc")}


def test_no_module_imports_itself_over_others() -> None:
    assert not circles(imports(with_types=False))


def test_no_annotations_go_in_circles_but_those_of_the_twin() -> None:
    assert circles(imports(with_types=True)) <= TYPED_CIRCLES
