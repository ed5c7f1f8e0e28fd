"""The double binary tree of NCCL: every node but the roots is a leaf of one tree and an inner node of the other.

Source: Sanders, Speck and Träff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"; NCCL 2.x,
src/graph/trees.cc (`ncclGetBtree`, `ncclGetDtree`).
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Ints


def binary_tree(nodes: int) -> Ints:
    """Parent of each node in the in-order binary tree (−1 at node 0), by the lowest set bit.

    Node 0 is the root with one child; odd nodes are leaves. Shape (nodes,).
    """
    parent = np.full(nodes, -1, dtype=np.int64)
    for node in range(1, nodes):
        bit = node & -node
        up = (node ^ bit) | (bit << 1)
        parent[node] = up if up < nodes else node ^ bit
    return parent


def double_tree(nodes: int) -> tuple[Ints, Ints]:
    """Parents in both trees: the second is the first mirrored (even number of nodes) or shifted by one (odd)."""
    first = binary_tree(nodes)
    node = np.arange(nodes)
    other = nodes - 1 - node if nodes % 2 == 0 else (node - 1) % nodes
    back = np.empty(nodes, dtype=np.int64)
    back[other] = node
    second = np.where(first[other] >= 0, back[first[other]], -1)
    return first, np.asarray(second, dtype=np.int64)
