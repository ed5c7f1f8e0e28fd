"""Content of the KV caches: chains of nodes that requests share, and blocks that a request frees."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper, pasted
from windtunnel.serving.event_loop.kernels.kv_blocks import blocks_for, extra_blocks
from windtunnel.serving.event_loop.kernels.state import Array, Lane, PrefixTree, Record


@helper
def _node_row(instance: Record, u: int) -> int:
    """Where an instance keeps a node: each has a row of its own of those that several requests may want."""
    return u + (instance.row if u < instance.common else instance.single)


@helper
def _unlink(instance: Record, nodes: Array, u: int) -> None:
    """Remove a node from the list of those that no request holds."""
    node = nodes[_node_row(instance, u)]
    if node.before >= 0:
        nodes[_node_row(instance, node.before)].after = node.after
    else:
        instance.oldest = node.after
    if node.after >= 0:
        nodes[_node_row(instance, node.after)].before = node.before
    else:
        instance.youngest = node.before


@helper
def hold(instance: Record, nodes: Array, u: int) -> None:
    """Count one more request that holds a node."""
    node = nodes[_node_row(instance, u)]
    if node.holders == 0 and node.resident > 0:
        _unlink(instance, nodes, u)
        instance.cached -= node.resident
        instance.used += node.resident
    node.holders += 1


@helper
def find(instance: Record, tree: PrefixTree, i: int) -> tuple[int, int, int]:
    """Blocks of a request's chain that are there, those of them that nobody holds, and how many nodes they span."""
    found, free, count = 0, 0, 0
    for j in range(tree.chain_at[i], tree.chain_at[i + 1]):
        u = tree.chain[j]
        here = tree.nodes[_node_row(instance, u)].resident
        if tree.size[u] > 0 and here == 0:
            break
        count += 1
        found += here
        if tree.nodes[_node_row(instance, u)].holders == 0:
            free += here
        if here < tree.size[u]:
            break
    return found, free, count


@helper
def register(instance: Record, requests: Array, tree: PrefixTree, i: int, done: int) -> None:
    """Register the first `done` blocks of a request as computed: others may find them now."""
    q = requests[i]
    first = tree.chain_at[i]
    offset = 0
    for j in range(first, tree.chain_at[i + 1]):
        u = tree.chain[j]
        here = min(done - offset, tree.size[u])
        if j - first >= q.nodes:
            if here <= 0 and tree.size[u] > 0:
                break
            hold(instance, tree.nodes, u)
            q.nodes = j - first + 1
        if here > tree.nodes[_node_row(instance, u)].resident:
            q.shared += here - tree.nodes[_node_row(instance, u)].resident
            tree.nodes[_node_row(instance, u)].resident = here
        if here < tree.size[u]:
            break
        offset += tree.size[u]


@helper
def forget(instance: Record, tree: PrefixTree, i: int) -> None:
    """Drop a request's blocks that nobody holds."""
    for j in range(tree.chain_at[i + 1] - 1, tree.chain_at[i] - 1, -1):
        u = tree.chain[j]
        node = tree.nodes[_node_row(instance, u)]
        if node.holders == 0 and node.resident > 0:
            instance.cached -= node.resident
            node.resident = 0
            _unlink(instance, tree.nodes, u)


@helper
def release(instance: Record, requests: Array, tree: PrefixTree, i: int) -> None:
    """Release the nodes of a request, the last of its chain first, which is then evicted first."""
    q = requests[i]
    first = tree.chain_at[i]
    for j in range(first + q.nodes - 1, first - 1, -1):
        u = tree.chain[j]
        node = tree.nodes[_node_row(instance, u)]
        node.holders -= 1
        if node.holders == 0 and node.resident > 0:
            instance.used -= node.resident
            instance.cached += node.resident
            node.before = instance.youngest
            node.after = -1
            if instance.youngest >= 0:
                tree.nodes[_node_row(instance, instance.youngest)].after = u
            else:
                instance.oldest = u
            instance.youngest = u
    q.nodes = 0
    q.shared = 0


@helper
def evict(instance: Record, nodes: Array, blocks: int) -> None:
    """Evict what was released longest ago until the rest fits beside the blocks in use."""
    over = instance.used + instance.cached - blocks
    while over > 0:
        u = instance.oldest
        node = nodes[_node_row(instance, u)]
        gone = min(node.resident, over)
        node.resident -= gone
        instance.cached -= gone
        over -= gone
        if node.resident == 0:
            _unlink(instance, nodes, u)


@helper
def _leave(instance: Record, requests: Array, tree: PrefixTree, i: int, done: int) -> int:
    """Register `done` blocks of a request that ends, and let go of them; returns how many it shared."""
    q = requests[i]
    register(instance, requests, tree, i, done)
    shared = q.shared
    if q.pinned == 0:
        release(instance, requests, tree, i)
    return shared


@pasted
def free_blocks(lane: Lane, requests: Array, tree: PrefixTree, i: int, blocks: int, done: int) -> None:
    """Free the blocks of a request, of which `done` tokens are computed."""
    limits = lane.limits
    if limits.caching:
        blocks -= _leave(lane.instance, requests, tree, i, done // limits.block)
    lane.instance.used -= blocks + extra_blocks(requests[i], limits)


@pasted
def free_decoding_blocks(lane: Lane, requests: Array, tree: PrefixTree, i: int) -> None:
    """Free the blocks of a decoding request, which has `stored` tokens in the cache."""
    q = requests[i]
    limits = lane.limits
    blocks = q.blocks
    if not limits.reserve:
        blocks = blocks_for(q.stored + limits.lookahead, limits.block)
        lane.turns[(q.stored + limits.lookahead - lane.instance.step) % limits.block] -= 1
    done = min(q.stored, q.input + q.output - 1)
    free_blocks(lane, requests, tree, i, blocks, done)
