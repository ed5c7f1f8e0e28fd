"""Scale by symmetry: the coarsest equitable partition of ranks and resources, and the rates of the quotient."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints
from windtunnel.program.tables import Resources

_Ints = Ints


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread integers over 64 bits.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
    """
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _renumber(colours: npt.NDArray[np.uint64]) -> tuple[_Ints, int]:
    """Colours as 0, 1, … in order of first appearance, and how many there are."""
    _, first, inverse = np.unique(colours, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()], len(first)


def _refine(own: _Ints, other: _Ints, at: _Ints, to: _Ints, kind: npt.NDArray[np.uint64]) -> tuple[_Ints, int]:
    """New colours from the old one and the multiset of neighbouring colours (as a sum of 64-bit hashes)."""
    seen = np.zeros(len(own), np.uint64)
    np.add.at(seen, at, _mix(_mix(other[to].astype(np.uint64)) ^ kind))
    return _renumber(_mix(own.astype(np.uint64)) + np.uint64(3) * seen)


def equitable_partition(
    incidence: npt.ArrayLike,
    rank_colours: npt.ArrayLike,
    *,
    resource_colours: npt.ArrayLike | None = None,
    incidence_kinds: npt.ArrayLike | None = None,
) -> tuple[_Ints, _Ints, Floats]:
    """Group ranks and resources so that members of a class see the same numbers of members of every other class.

    Colour refinement on the bipartite graph of ranks and resources: colours split until stable. Multisets are
    compared by 64-bit sums of hashes.

    Args:
        incidence: Pairs (rank, resource), shape (e, 2).
        rank_colours: What tells ranks apart from the start (program, stage, device), shape (n,).
        resource_colours: The same for resources (capacity, level), shape (r,); all alike when left out.
        incidence_kinds: How a rank uses the resource, shape (e,); all alike when left out.

    Returns:
        Class of each rank (n,), class of each resource (r,), and the multiplicity (rank classes, resource classes): how
        many ranks of the class load one resource of the class.
    """
    pairs = np.asarray(incidence, np.int64).reshape(-1, 2)
    rank, resource = pairs[:, 0], pairs[:, 1]
    ranks, num_ranks = _renumber(np.asarray(rank_colours).astype(np.int64).astype(np.uint64))
    if resource_colours is None:
        count = int(resource.max()) + 1 if len(resource) else 0
        resources, num_resources = np.zeros(count, np.int64), min(count, 1)
    else:
        _, inverse = np.unique(np.asarray(resource_colours), return_inverse=True)
        resources, num_resources = _renumber(inverse.ravel().astype(np.uint64))
    kind = np.zeros(len(pairs), np.uint64)
    if incidence_kinds is not None:
        kind = _mix(np.asarray(incidence_kinds).astype(np.uint64))
    while True:
        resources, new_resources = _refine(resources, ranks, resource, rank, kind)
        ranks, new_ranks = _refine(ranks, resources, rank, resource, kind)
        if (new_ranks, new_resources) == (num_ranks, num_resources):
            break
        num_ranks, num_resources = new_ranks, new_resources
    edges = np.bincount(ranks[rank] * num_resources + resources[resource], minlength=num_ranks * num_resources)
    sizes = np.bincount(resources, minlength=num_resources)
    return ranks, resources, edges.reshape(num_ranks, num_resources) / np.maximum(sizes, 1)


def quotient_resources(resources: Resources, resource_class: npt.ArrayLike) -> Resources:
    """One rate per resource class, with the capacity and name of its first member.

    Tasks of a rank class load it with multiplicity · work, so that Σ over classes of multiplicity · speed · demand
    stays within the capacity of one member. Slot pools are kept.

    Raises:
        AssertionError: Members of a class differ in capacity (the colours did not tell them apart).
    """
    classes = np.asarray(resource_class, np.int64)
    _, first = np.unique(classes, return_index=True)
    capacity = resources.capacity[first]
    assert np.array_equal(capacity[classes], resources.capacity), "resources of one class differ in capacity"
    names = tuple(resources.names[i] for i in first) if resources.names else ()
    return Resources(capacity=capacity, names=names, slots=resources.slots, slot_names=resources.slot_names)
