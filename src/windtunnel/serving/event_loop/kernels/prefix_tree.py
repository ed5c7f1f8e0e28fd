"""Content of the KV caches: chains of nodes that requests share, and blocks that a request frees."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.kv_blocks import blocks_for, extra_blocks
from windtunnel.serving.event_loop.kernels.records import Array


@helper
def _node_row(instance: Array, u: int) -> int:
    """Where an instance keeps a node: each has a row of its own of those that several requests may want."""
    return u + (instance.row if u < instance.common else instance.single)


@helper
def _unlink(instance: Array, nodes: Array, u: int) -> None:
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
def hold(instance: Array, nodes: Array, u: int) -> None:
    """Count one more request that holds a node."""
    node = nodes[_node_row(instance, u)]
    if node.holders == 0 and node.resident > 0:
        _unlink(instance, nodes, u)
        instance.cached -= node.resident
        instance.used += node.resident
    node.holders += 1


@helper
def find(instance: Array, nodes: Array, chain_at: Array, chain: Array, size: Array, i: int) -> tuple[int, int, int]:
    """Blocks of a request's chain that are there, those of them that nobody holds, and how many nodes they span."""
    found, free, count = 0, 0, 0
    for j in range(chain_at[i], chain_at[i + 1]):
        u = chain[j]
        here = nodes[_node_row(instance, u)].resident
        if size[u] > 0 and here == 0:
            break
        count += 1
        found += here
        if nodes[_node_row(instance, u)].holders == 0:
            free += here
        if here < size[u]:
            break
    return found, free, count


@helper
def register(
    instance: Array, requests: Array, nodes: Array, chain_at: Array, chain: Array, size: Array, i: int, done: int
) -> None:
    """Register the first `done` blocks of a request as computed: others may find them now."""
    q = requests[i]
    first = chain_at[i]
    offset = 0
    for j in range(first, chain_at[i + 1]):
        u = chain[j]
        here = min(done - offset, size[u])
        if j - first >= q.nodes:
            if here <= 0 and size[u] > 0:
                break
            hold(instance, nodes, u)
            q.nodes = j - first + 1
        if here > nodes[_node_row(instance, u)].resident:
            q.shared += here - nodes[_node_row(instance, u)].resident
            nodes[_node_row(instance, u)].resident = here
        if here < size[u]:
            break
        offset += size[u]


@helper
def forget(instance: Array, nodes: Array, chain_at: Array, chain: Array, i: int) -> None:
    """Drop a request's blocks that nobody holds."""
    for j in range(chain_at[i + 1] - 1, chain_at[i] - 1, -1):
        u = chain[j]
        node = nodes[_node_row(instance, u)]
        if node.holders == 0 and node.resident > 0:
            instance.cached -= node.resident
            node.resident = 0
            _unlink(instance, nodes, u)


@helper
def release(instance: Array, requests: Array, nodes: Array, chain_at: Array, chain: Array, i: int) -> None:
    """Release the nodes of a request, the last of its chain first, which is then evicted first."""
    q = requests[i]
    first = chain_at[i]
    for j in range(first + q.nodes - 1, first - 1, -1):
        u = chain[j]
        node = nodes[_node_row(instance, u)]
        node.holders -= 1
        if node.holders == 0 and node.resident > 0:
            instance.used -= node.resident
            instance.cached += node.resident
            node.before = instance.youngest
            node.after = -1
            if instance.youngest >= 0:
                nodes[_node_row(instance, instance.youngest)].after = u
            else:
                instance.oldest = u
            instance.youngest = u
    q.nodes = 0
    q.shared = 0


@helper
def evict(instance: Array, nodes: Array, blocks: int) -> None:
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
def free_blocks(
    instance: Array,
    requests: Array,
    i: int,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    blocks: int,
    done: int,
) -> None:
    """Free the blocks of a request, of which `done` tokens are computed."""
    q = requests[i]
    if nodes is not None and limits.caching:
        register(instance, requests, nodes, chain_at, chain, size, i, done // limits.block)
        blocks -= q.shared
        if q.pinned == 0:
            release(instance, requests, nodes, chain_at, chain, i)
    instance.used -= blocks + extra_blocks(q, limits)


@helper
def free_decoding_blocks(
    instance: Array,
    requests: Array,
    turns: Array,
    i: int,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
) -> None:
    """Free the blocks of a decoding request, which has `stored` tokens in the cache."""
    q = requests[i]
    blocks = q.blocks
    if not limits.reserve:
        blocks = blocks_for(q.stored + limits.lookahead, limits.block)
        turns[(q.stored + limits.lookahead - instance.step) % limits.block] -= 1
    done = min(q.stored, q.input + q.output - 1)
    free_blocks(instance, requests, i, limits, nodes, chain_at, chain, size, blocks, done)
