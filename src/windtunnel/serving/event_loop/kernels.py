"""The request loop of serving, jitted. `reference.py` is its plain twin: same arithmetic, same order, same bits.

Time moves from one event to the next: an arrival, the end of an iteration that holds prompts, or the end of a run of
decode steps. Between two events a decoding batch does not change, and its steps grow evenly (every sequence has one
token more in the cache), so a run of any length has a closed form. Cost is per event, not per token.

A cached token count lets a prompt skip work; blocks of the cache are counted exactly: sequences that need a new block
at the same step are counted together, so that nothing is touched per step.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.jit import helper, kernel, plain
from windtunnel.serving.event_loop import kernels_kv_transfer as handover
from windtunnel.serving.event_loop.kernels_kv_transfer import HELD, MOVING

Array = Any

NEW, WAITING, PREFILL, DECODE, DONE, REJECTED = range(6)
"""States of a request."""
IDLE, RUN, ITERATION = range(3)
"""What an instance does: nothing, decode steps alone, one iteration with prompts in it."""
CLASSES = 8
"""Classes of priority; 0 is served first."""
ROUND_ROBIN, RANDOM, LEAST_REQUESTS, LEAST_TOKENS, POWER_OF_TWO, STICKY = range(6)
"""Routers: in turn, at random, fewest requests, fewest tokens to do, the better of two at random, by prefix."""
HISTOGRAM_BINS, HISTOGRAM_LOW_S, HISTOGRAM_PER_DECADE = 1600, 1e-5, 200
"""Time between tokens is counted in bins of 1.2 %, from 10 µs to 1,000 s."""

REQUEST = np.dtype(
    [(name, "f8") for name in ("arrival", "delay", "scheduled", "first", "finish")]
    + [("finish_step", "i8")]
    + [
        (name, "i4")
        for name in (
            "input",
            "output",
            "cached",
            "priority",
            "group",
            "left",
            "stored",
            "chunk",
            "made",
            "blocks",
            "state",
            "instance",
            "preemptions",
            "follow",
            "place",
            "behind",
            "next_prompt",
            "before",
            "after",
            "held",
            "hit",
            "nodes",
            "shared",
            "swapped",
        )
    ],
    align=True,
)
"""A request: seconds; tokens of prompt and answer, of the prompt found in the cache; what is left to compute, what is
stored, what this iteration takes, what was made; links of the waiting line, of prompts under way, of the order of
admission. `held`: tokens inside the window, on the average of its answer. `follow`: the request that is sent `delay`
seconds after this one ended (its next turn), or −1. `hit`: prompt tokens found in the cache when it first entered.
`nodes`: of its chain that it holds; `shared`: blocks of those that it does not count as its own; `swapped`: blocks in
host memory, or −1 while its cache is on the instance that computed its prompt."""
INSTANCE = np.dtype(
    [(name, "f8") for name in ("start", "end", "first_step", "slope", "kv", "window")]
    + [(name, "i8") for name in ("step", "steps", "used", "polled", "ratio", "cached", "host", "row", "single")]
    + [("fraction", "i8")]
    + [(name, "i4") for name in ("mode", "decoding", "prefilling", "waiting", "prompt_head", "prompt_tail")]
    + [(name, "i4") for name in ("newest", "oldest", "youngest", "common")]
    + [(name, "i4") for name in ("pool", "hands", "admitted", "last_admitted", "ready", "last_ready", "promised")],
    align=True,
)
"""An instance: the iteration or run under way, its batch, its cache. `ratio`: of the answers to come, what is expected
(millionths); `step`: tokens that a sequence decoding all along has made, and `fraction` of the next (millionths);
`cached`: blocks that nobody holds but whose content is known, from the `oldest` node to the `youngest`;
`common`: nodes that several requests may want, from `row` on; `single`: what to add to the number of any other.
`hands`: 1 where prompts are computed for another pool; lists of answers that have just got blocks and of those whose
cache has come; prompts that are `promised` to it, while their answers wait for blocks. Answers on their way count as
`prefilling`."""
NODE = np.dtype([(name, "i4") for name in ("resident", "holders", "before", "after")])
"""A stretch of content in one instance's cache: blocks there, requests that hold it, its place among those let go."""
TOTAL = np.dtype(
    [
        (name, "f8")
        for name in (
            "busy_s",
            "iterations",
            "prompt_iterations",
            "prompt_tokens",
            "decode_tokens",
            "prompt_pairs",
            "kv_tokens",
            "running_s",
            "used_s",
            "kv_max",
            "preemptions",
            "running_max",
            "asked_tokens",
            "hit_tokens",
        )
    ]
)
"""Sums over an instance's life: seconds, tokens, integrals over time of sequences running and of blocks used;
tokens of prompts that entered, and those of them found in the cache."""
SERIES = np.dtype(
    [(name, "f8") for name in ("start", "seconds", "steps", "decoding", "prompts", "waiting", "used")]
    + [("instance", "i8")]
)
"""One event of an instance: how long it took, how many steps, with what batch."""
LIMITS = np.dtype(
    [
        (name, "f8")
        for name in (
            "pair",
            "kv",
            "window_kv",
            "per_sequence",
            "prompt_floor",
            "window_share",
            "swap_block",
            "prompt_token",
            "reach",
            "index_share",
        )
    ]
    + [
        (name, "i8")
        for name in (
            "window",
            "captured",
            "budget",
            "max_seqs",
            "block",
            "blocks",
            "watermark",
            "poll",
            "mixed",
            "chunked",
            "reserve",
            "static",
            "router",
            "concurrency",
            "every",
            "seed",
            "caching",
            "early",
            "reserve_length",
            "sequence_blocks",
            "ratio_start",
            "ratio_least",
            "ratio_decay",
            "retract",
            "least_made",
            "taken_last",
            "swap_blocks",
            "ranks",
            "cp",
            "tokens_per_step",
            "step_tokens",
            "lookahead",
        )
    ]
)
"""Costs per pair, per token in the cache, per sequence, per iteration with prompts and per token of a prompt, in
seconds; `ranks` of attention data parallelism, each of which computes whole prompts; limits of a batch and of the
cache; switches of the policy (0 or 1). `every`: keep one event in that many; 0 keeps none."""

MILLION = 1_000_000
EXPECTED_MOST = 4096
"""Tokens of one answer that are expected at most (SGLang, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION)."""


# -- the finish heap of one instance: rows of `heap`, ordered by (finish step, request) -------------------------------
@helper
def _before(requests: Array, a: int, b: int) -> bool:
    x, y = requests[a].finish_step, requests[b].finish_step
    return x < y or (x == y and a < b)


@helper
def _up(heap: Array, requests: Array, at: int) -> None:
    item = heap[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(requests, item, heap[parent]):
            break
        heap[at] = heap[parent]
        requests[heap[at]].place = at
        at = parent
    heap[at] = item
    requests[item].place = at


@helper
def _down(heap: Array, requests: Array, at: int, count: int) -> None:
    item = heap[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _before(requests, heap[child + 1], heap[child]):
            child += 1
        if not _before(requests, heap[child], item):
            break
        heap[at] = heap[child]
        requests[heap[at]].place = at
        at = child
    heap[at] = item
    requests[item].place = at


@helper
def _take_out(heap: Array, requests: Array, at: int, count: int) -> None:
    """Remove the entry at a place from a heap of `count`."""
    last = heap[count - 1]
    if at == count - 1:
        return
    heap[at] = last
    requests[last].place = at
    _down(heap, requests, at, count - 1)
    _up(heap, requests, requests[last].place)


# -- lines and lists ---------------------------------------------------------------------------------------------------
@helper
def _line_up(instance: Array, lines: Array, requests: Array, i: int, front: bool) -> None:
    """Put a request in its class's waiting line, at the end or (taken back) at the front."""
    q = requests[i]
    c = q.priority
    q.state = WAITING
    instance.waiting += 1
    if lines[c, 0] < 0:
        q.behind = -1
        lines[c, 0] = i
        lines[c, 1] = i
    elif front:
        q.behind = lines[c, 0]
        lines[c, 0] = i
    else:
        q.behind = -1
        requests[lines[c, 1]].behind = i
        lines[c, 1] = i


@helper
def _first_in_line(lines: Array) -> int:
    for c in range(CLASSES):
        if lines[c, 0] >= 0:
            return c
    return -1


@helper
def _leave(instance: Array, requests: Array, i: int) -> None:
    """Take a request out of the order of admission."""
    q = requests[i]
    if q.before >= 0:
        requests[q.before].after = q.after
    if q.after >= 0:
        requests[q.after].before = q.before
    else:
        instance.newest = q.before


@helper
def _drop_prompt(instance: Array, requests: Array, i: int) -> None:
    """Take a request out of the prompts under way."""
    at, last = instance.prompt_head, -1
    while at != i:
        last = at
        at = requests[at].next_prompt
    follow = requests[i].next_prompt
    if last < 0:
        instance.prompt_head = follow
    else:
        requests[last].next_prompt = follow
    if follow < 0:
        instance.prompt_tail = last
    instance.prefilling -= 1


# -- the cache ---------------------------------------------------------------------------------------------------------
@helper
def _blocks(tokens: int, block: int) -> int:
    return (tokens + block - 1) // block


@helper
def _growth(turns: Array, step: int, steps: int, decoding: int, block: int) -> int:
    """Blocks that the next `steps` decode steps take: `turns[(slots − step) mod block]` counts sequences."""
    whole = steps // block
    out = whole * decoding
    for i in range(whole * block, steps):
        out += turns[(-(step + i)) % block]
    return out


@helper
def _room(turns: Array, step: int, decoding: int, block: int, free: int, wanted: int) -> int:
    """Decode steps, at most `wanted`, that the free blocks allow."""
    whole = min(free // decoding, wanted // block)
    out = whole * block
    free -= whole * decoding
    while out < wanted:
        free -= turns[(-(step + out)) % block]
        if free < 0:
            break
        out += 1
    return out


@helper
def _extra(q: Array, limits: Array) -> int:
    """Blocks that a sequence takes beside those of its tokens: recurrent states, layers that keep a window."""
    if limits.window_share == 0.0:
        return limits.sequence_blocks
    kept = float(min(q.input + q.output, limits.window)) * limits.window_share
    return limits.sequence_blocks + int(np.ceil(kept / limits.block))


@helper
def _wanted(q: Array, limits: Array) -> int:
    """Tokens that a request takes blocks for when it enters."""
    if limits.reserve:
        return max(q.input + q.output, limits.reserve_length) + limits.lookahead
    return q.input + q.made + min(q.swapped, 0) + limits.lookahead


# -- steps and tokens: all sequences of an instance share one clock of tokens ------------------------------------------
@helper
def _gained(instance: Array, limits: Array, steps: int) -> int:
    """Tokens that each decoding sequence makes in the next `steps` steps."""
    if limits.tokens_per_step == MILLION:
        return steps
    return (instance.fraction + steps * limits.tokens_per_step) // MILLION


@helper
def _steps_for(instance: Array, limits: Array, tokens: int) -> int:
    """Steps in which each decoding sequence makes so many tokens at least."""
    if limits.tokens_per_step == MILLION:
        return tokens
    return (tokens * MILLION - instance.fraction + limits.tokens_per_step - 1) // limits.tokens_per_step


@helper
def _steps_within(instance: Array, limits: Array, tokens: int) -> int:
    """Steps in which each decoding sequence makes so many tokens at most."""
    return ((tokens + 1) * MILLION - 1 - instance.fraction) // limits.tokens_per_step


@helper
def _next_growth(instance: Array, turns: Array, limits: Array) -> int:
    """Blocks that the next decode step takes."""
    ahead = _gained(instance, limits, 1)
    if ahead == 1:
        return turns[(-instance.step) % limits.block]
    return _growth(turns, instance.step, ahead, instance.decoding, limits.block)


@helper
def _kv(instance: Array) -> float:
    """Tokens in the cache of decoding sequences, the share of the next one included."""
    return instance.kv + instance.decoding * (instance.fraction * 1e-6)


# -- content of the cache: chains of nodes, shared between requests ----------------------------------------------------
@helper
def _at(instance: Array, u: int) -> int:
    """Where an instance keeps a node: each has a row of its own of those that several requests may want."""
    return u + (instance.row if u < instance.common else instance.single)


@helper
def _unlink(instance: Array, nodes: Array, u: int) -> None:
    node = nodes[_at(instance, u)]
    if node.before >= 0:
        nodes[_at(instance, node.before)].after = node.after
    else:
        instance.oldest = node.after
    if node.after >= 0:
        nodes[_at(instance, node.after)].before = node.before
    else:
        instance.youngest = node.before


@helper
def _hold(instance: Array, nodes: Array, u: int) -> None:
    """One more request holds a node."""
    node = nodes[_at(instance, u)]
    if node.holders == 0 and node.resident > 0:
        _unlink(instance, nodes, u)
        instance.cached -= node.resident
        instance.used += node.resident
    node.holders += 1


@helper
def _find(instance: Array, nodes: Array, chain_at: Array, chain: Array, size: Array, i: int) -> tuple[int, int, int]:
    """Blocks of a request's chain that are there, those of them that nobody holds, and how many nodes they span."""
    found, free, count = 0, 0, 0
    for j in range(chain_at[i], chain_at[i + 1]):
        u = chain[j]
        here = nodes[_at(instance, u)].resident
        if size[u] > 0 and here == 0:
            break
        count += 1
        found += here
        if nodes[_at(instance, u)].holders == 0:
            free += here
        if here < size[u]:
            break
    return found, free, count


@helper
def _register(
    instance: Array, requests: Array, nodes: Array, chain_at: Array, chain: Array, size: Array, i: int, done: int
) -> None:
    """A request has computed its first `done` blocks: others may find them now."""
    q = requests[i]
    first = chain_at[i]
    offset = 0
    for j in range(first, chain_at[i + 1]):
        u = chain[j]
        here = min(done - offset, size[u])
        if j - first >= q.nodes:
            if here <= 0 and size[u] > 0:
                break
            _hold(instance, nodes, u)
            q.nodes = j - first + 1
        if here > nodes[_at(instance, u)].resident:
            q.shared += here - nodes[_at(instance, u)].resident
            nodes[_at(instance, u)].resident = here
        if here < size[u]:
            break
        offset += size[u]


@helper
def _release(instance: Array, requests: Array, nodes: Array, chain_at: Array, chain: Array, i: int) -> None:
    """A request lets its nodes go, the last of its chain first, which is then evicted first."""
    q = requests[i]
    first = chain_at[i]
    for j in range(first + q.nodes - 1, first - 1, -1):
        u = chain[j]
        node = nodes[_at(instance, u)]
        node.holders -= 1
        if node.holders == 0 and node.resident > 0:
            instance.used -= node.resident
            instance.cached += node.resident
            node.before = instance.youngest
            node.after = -1
            if instance.youngest >= 0:
                nodes[_at(instance, instance.youngest)].after = u
            else:
                instance.oldest = u
            instance.youngest = u
    q.nodes = 0
    q.shared = 0


@helper
def _evict(instance: Array, nodes: Array, blocks: int) -> None:
    """Forget what was let go longest ago until the rest fits beside the blocks in use."""
    over = instance.used + instance.cached - blocks
    while over > 0:
        u = instance.oldest
        node = nodes[_at(instance, u)]
        gone = min(node.resident, over)
        node.resident -= gone
        instance.cached -= gone
        over -= gone
        if node.resident == 0:
            _unlink(instance, nodes, u)


@helper
def _give_back(
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
    """A request frees its blocks, of which `done` tokens are computed."""
    q = requests[i]
    if nodes is not None and limits.caching:
        _register(instance, requests, nodes, chain_at, chain, size, i, done // limits.block)
        blocks -= q.shared
        _release(instance, requests, nodes, chain_at, chain, i)
    instance.used -= blocks + _extra(q, limits)


@helper
def _give_decoding_back(
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
    """A decoding request frees its blocks; `stored` is what it has in the cache now."""
    q = requests[i]
    blocks = q.blocks
    if not limits.reserve:
        blocks = _blocks(q.stored + limits.lookahead, limits.block)
        turns[(q.stored + limits.lookahead - instance.step) % limits.block] -= 1
    done = min(q.stored, q.input + q.output - 1)
    _give_back(instance, requests, i, limits, nodes, chain_at, chain, size, blocks, done)


@helper
def _decoded(instance: Array, q: Array) -> int:
    """Tokens that a decoding request has in the cache: the prompt and what it decoded since."""
    return q.input + q.output - 1 - (q.finish_step - instance.step)


@helper
def _made_least(instance: Array, heap: Array, requests: Array) -> int:
    """Of those that decode, the one that made the fewest; of equals the longest prompt, then the last to come."""
    least = heap[0]
    for p in range(1, instance.decoding):
        i = heap[p]
        q, other = requests[i], requests[least]
        more = (q.output - q.finish_step) - (other.output - other.finish_step)
        if more < 0 or (more == 0 and (q.input > other.input or (q.input == other.input and i > least))):
            least = i
    return least


@helper
def _preempt(
    instance: Array,
    lines: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    total: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    now: float,
) -> None:
    """Take a request out of the batch: its cache is dropped or swapped, and it waits."""
    i = instance.newest
    if limits.least_made and limits.step_tokens == 1 and instance.decoding > 1:
        i = _made_least(instance, heap, requests)
    q = requests[i]
    if q.state == DECODE:
        q.stored = _decoded(instance, q)
        q.made = q.output - (q.finish_step - instance.step)
        q.finish = now  # its last token so far
        blocks = _blocks(q.stored + limits.lookahead, limits.block)
        if instance.host + blocks <= limits.swap_blocks:
            instance.host += blocks
            q.swapped = blocks
        _give_decoding_back(instance, requests, turns, i, limits, nodes, chain_at, chain, size)
        _take_out(heap, requests, q.place, instance.decoding)
        instance.decoding -= 1
        instance.kv -= q.stored + 1
        instance.window -= q.held
    else:
        done = q.input + q.made - q.left
        _give_back(instance, requests, i, limits, nodes, chain_at, chain, size, q.blocks, done)
        _drop_prompt(instance, requests, i)
    _leave(instance, requests, i)
    q.cached = 0
    q.preemptions += 1
    total.preemptions += 1
    _line_up(instance, lines, requests, i, not limits.taken_last)


@helper
def _expected(instance: Array, heap: Array, requests: Array) -> int:
    """Tokens that the batch is expected to make, in millionths."""
    out = 0
    for p in range(instance.decoding):
        out += min(requests[heap[p]].finish_step - instance.step, EXPECTED_MOST) * instance.ratio
    i = instance.prompt_head
    while i >= 0:
        out += min(requests[i].output - requests[i].made, EXPECTED_MOST) * MILLION
        i = requests[i].next_prompt
    return out


@helper
def _attended(every: float, c: int, limits: Array) -> float:
    """Of all pairs of a prompt's next `c` tokens, those that sparse attention is charged for."""
    return min(every, c * limits.reach) + limits.index_share * every


# -- answers whose prompt another instance computed --------------------------------------------------------------------
@helper
def _join(instance: Array, heap: Array, requests: Array, turns: Array, limits: Array, flow: Array, now: float) -> None:
    """Answers whose cache has come decode from now on."""
    i = instance.ready
    while i >= 0:
        q = requests[i]
        q.state = DECODE
        q.swapped = 0
        q.stored = q.input + q.made - 1
        q.finish_step = instance.step + q.output - q.made
        heap[instance.decoding] = i
        instance.decoding += 1
        instance.prefilling -= 1
        _up(heap, requests, instance.decoding - 1)
        instance.kv += q.stored + 1
        q.held = min(q.stored + 1 + (q.output - q.made) // 2, limits.window)
        instance.window += q.held
        if not limits.reserve:
            turns[(q.stored + limits.lookahead - instance.step) % limits.block] += 1
        _enlist(instance, requests, i)
        if flow[4][0].first == handover.TRANSFER_FIRST:
            q.first = now
        i = q.next_prompt
    instance.ready = -1
    instance.last_ready = -1


@helper
def _enlist(instance: Array, requests: Array, i: int) -> None:
    """Put a request last in the order of admission."""
    q = requests[i]
    q.before = instance.newest
    q.after = -1
    if instance.newest >= 0:
        requests[instance.newest].after = i
    instance.newest = i


@helper
def _hands_on(instance: Array, requests: Array, i: int, flow: Array) -> bool:
    """Whether a computed prompt is answered elsewhere."""
    if instance.hands == 0:
        return False
    return requests[i + len(requests) // 2].output > 1 or flow[4][0].first == handover.DECODE_FIRST


@helper
def _hold_for(
    instance: Array, lines: Array, requests: Array, limits: Array, nodes: Array, row: int, i: int, now: float
) -> None:
    """Keep blocks for an answer whose cache is elsewhere."""
    q = requests[i]
    lines[row, 0] = q.behind
    if q.behind < 0:
        lines[row, 1] = -1
    instance.waiting -= 1
    q.blocks = _blocks(_wanted(q, limits), limits.block)
    instance.used += q.blocks + _extra(q, limits)
    if nodes is not None:
        _evict(instance, nodes, limits.blocks)
    q.state = MOVING
    q.scheduled = now
    instance.prefilling += 1
    q.next_prompt = -1
    if instance.last_admitted >= 0:
        requests[instance.last_admitted].next_prompt = i
    else:
        instance.admitted = i
    instance.last_admitted = i


@helper
def _first_steps(requests: Array, joined: int, histogram: Array, now: float, seconds: float) -> None:
    """The first step of answers that have just joined: their first token, or the time since it, which has a bin."""
    half = len(requests) // 2
    i = joined
    while i >= 0:
        q = requests[i]
        if q.state == DECODE:
            if q.made == 0:
                q.first = now + seconds
                _count(histogram, seconds, 0.0, 1, -1)
            elif q.first != q.first:
                _count(histogram, seconds, 0.0, 1, -1)
                _count(histogram, now + seconds - requests[i - half].first, 0.0, 1, 1)
        i = q.next_prompt


# -- one instance ------------------------------------------------------------------------------------------------------
@helper
def _fits(
    instance: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    i: int,
) -> bool:
    """Whether the cache has room for a request beside those that are there, and the step they take with it."""
    q = requests[i]
    need = _blocks(_wanted(q, limits), limits.block) + _extra(q, limits)
    if limits.mixed and not limits.reserve:
        need += _next_growth(instance, turns, limits)
    found = 0
    if nodes is not None and limits.caching and q.swapped == 0:
        found, free, _ = _find(instance, nodes, chain_at, chain, size, i)
        need += free - found
    if instance.decoding + instance.prefilling == 0:
        return instance.used + need <= limits.blocks
    if instance.used + need + limits.watermark > limits.blocks:
        return False
    if limits.ratio_start > 0:
        left = q.input + q.made - max(q.cached, found * limits.block)
        room = (limits.blocks - instance.used) * limits.block * MILLION - _expected(instance, heap, requests)
        return room > (left + min(q.output - q.made, EXPECTED_MOST)) * MILLION
    return True


@helper
def _admissible(
    instance: Array,
    lines: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
) -> bool:
    """Whether the first in line could enter the batch now (or soon, where that depends on what is expected)."""
    if instance.waiting == 0 or instance.decoding + instance.prefilling >= limits.max_seqs:
        return False
    if limits.static and instance.decoding + instance.prefilling > 0:
        return False
    if limits.ratio_start > 0:
        return True
    i = lines[_first_in_line(lines), 0]
    return _fits(instance, heap, requests, turns, limits, nodes, chain_at, chain, size, i)


@helper
def _form(
    instance: Array,
    lines: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    total: Array,
    limits: Array,
    linear: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    histogram: Array,
    now: float,
) -> None:
    """Start the next iteration, or run of decode steps, of an instance that is free."""
    preempted = False
    if flow is not None:
        joined = instance.ready
        _join(instance, heap, requests, turns, limits, flow, now)
    if not limits.reserve:
        while instance.decoding > 0:
            need = _next_growth(instance, turns, limits)
            if preempted and instance.decoding > 1:
                need = max(need, _blocks(instance.decoding * limits.retract, limits.block))
            if instance.used + need <= limits.blocks:
                break
            _preempt(instance, lines, heap, requests, turns, total, limits, nodes, chain_at, chain, size, now)
            preempted = True
    if preempted and limits.ratio_start > 0:
        made, whole = limits.retract * instance.decoding, 1
        for p in range(instance.decoding):
            q = requests[heap[p]]
            made += q.output - (q.finish_step - instance.step)
            whole += q.output
        instance.ratio = min(MILLION, made * MILLION // whole)
    budget = limits.budget
    if limits.mixed:
        budget -= instance.decoding * limits.step_tokens
    each = budget // limits.ranks  # one rank computes a prompt, within its own budget
    tokens, sequences, moved = 0, 0, 0
    pairs = 0.0
    i = instance.prompt_head
    while i >= 0 and budget > 0:
        q = requests[i]
        c = max(min(q.left, budget, each), 1)
        if not limits.chunked:
            if q.left > budget and tokens > 0:
                break
            c = q.left
        done = q.input + q.made - q.left
        q.chunk = c
        if nodes is not None and limits.caching and limits.early:
            _register(instance, requests, nodes, chain_at, chain, size, i, (done + c) // limits.block)
        every = float(c) * done + 0.5 * float(c) * c
        pairs += every if limits.reach == 0.0 else _attended(every, c, limits)
        tokens += c
        sequences += 1
        budget -= c
        i = q.next_prompt
    batch = instance.decoding + instance.prefilling
    looks = limits.poll <= 1 or instance.decoding == 0 or instance.polled == 0
    fresh = looks and (not limits.static or batch == 0)
    while fresh and not preempted and instance.waiting > 0 and budget > 0:
        if instance.decoding + instance.prefilling >= limits.max_seqs:
            break
        row = _first_in_line(lines)
        i = lines[row, 0]
        q = requests[i]
        if flow is not None and q.swapped < 0:
            if not _fits(instance, heap, requests, turns, limits, nodes, chain_at, chain, size, i):
                break
            _hold_for(instance, lines, requests, limits, nodes, row, i, now)
            continue
        found, count, cached = 0, 0, q.cached
        if q.swapped > 0:
            cached = q.input + q.made - 1
        elif nodes is not None and limits.caching:
            found, _, count = _find(instance, nodes, chain_at, chain, size, i)
            cached = min(found * limits.block, q.input + q.made - 1)
        left = q.input + q.made - cached
        if not limits.chunked and left > budget and tokens > 0:
            break
        if not _fits(instance, heap, requests, turns, limits, nodes, chain_at, chain, size, i):
            break
        need = _blocks(_wanted(q, limits), limits.block)
        c = max(min(left, budget, each), 1) if limits.chunked else left
        lines[row, 0] = q.behind
        if q.behind < 0:
            lines[row, 1] = -1
        instance.waiting -= 1
        if nodes is not None and limits.caching:
            for j in range(chain_at[i], chain_at[i] + count):
                _hold(instance, nodes, chain[j])
            q.nodes = count
            q.shared = found
        instance.used += need - found + _extra(q, limits)
        if nodes is not None:
            _evict(instance, nodes, limits.blocks)
        q.blocks = need
        moved += 2 * q.swapped
        instance.host -= q.swapped
        q.swapped = 0
        q.cached = cached
        q.state = PREFILL
        q.left = left
        q.chunk = c
        if q.scheduled != q.scheduled:
            q.scheduled = now
            q.hit = cached
            total.asked_tokens += q.input
            total.hit_tokens += cached
        q.next_prompt = -1
        if instance.prompt_tail >= 0:
            requests[instance.prompt_tail].next_prompt = i
        else:
            instance.prompt_head = i
        instance.prompt_tail = i
        instance.prefilling += 1
        _enlist(instance, requests, i)
        done = q.input + q.made - left
        if nodes is not None and limits.caching and limits.early:
            _register(instance, requests, nodes, chain_at, chain, size, i, (done + c) // limits.block)
        every = float(c) * done + 0.5 * float(c) * c
        pairs += every if limits.reach == 0.0 else _attended(every, c, limits)
        tokens += c
        sequences += 1
        budget -= c
    instance.start = now
    running = instance.decoding + instance.prefilling
    total.running_max = max(total.running_max, running)
    total.kv_max = max(total.kv_max, instance.used)
    if tokens > 0:
        decoding = instance.decoding if limits.mixed else 0
        beside = decoding * limits.step_tokens
        each_rank = (tokens + limits.cp - 1) // limits.cp
        seconds = linear[0, each_rank + beside] + limits.prompt_token * tokens
        seconds += limits.pair * pairs
        if limits.ranks > 1:
            turns_each = (sequences + limits.ranks - 1) // limits.ranks
            even = min(tokens * turns_each * limits.ranks // sequences, len(linear[0]) - 1 - beside)
            seconds += linear[1, even + beside] - linear[1, tokens + beside]
            seconds += limits.pair * pairs * (turns_each * limits.ranks / sequences - 1.0)
        seconds += limits.per_sequence * (decoding + sequences) + limits.swap_block * moved
        if decoding > 0:
            seconds += limits.kv * _kv(instance) + limits.window_kv * instance.window
        if limits.step_tokens > 1:
            seconds += linear[2, decoding] + linear[3, tokens]
        if tokens + beside > limits.captured:
            seconds = max(seconds, limits.prompt_floor)
        instance.mode = ITERATION
        instance.steps = 1 if decoding > 0 else 0
        instance.first_step = seconds
        instance.slope = 0.0
        instance.end = now + seconds
        if flow is not None and decoding > 0:
            _first_steps(requests, joined, histogram, now, seconds)
        total.prompt_iterations += 1
        total.prompt_tokens += tokens
        total.prompt_pairs += pairs
        return
    if instance.decoding == 0:
        instance.mode = IDLE
        instance.end = np.inf
        instance.ratio = limits.ratio_start
        return
    steps = _steps_for(instance, limits, requests[heap[0]].finish_step - instance.step)
    if not limits.reserve:
        wanted = _gained(instance, limits, steps)
        room = _room(turns, instance.step, instance.decoding, limits.block, limits.blocks - instance.used, wanted)
        if room < wanted:
            steps = _steps_within(instance, limits, room)
    if (
        (limits.poll > 1 or limits.ratio_start > 0 or preempted)
        and instance.waiting > 0
        and _admissible(instance, lines, heap, requests, turns, limits, nodes, chain_at, chain, size)
    ):
        steps = min(steps, limits.poll - instance.polled)
    first = linear[0, instance.decoding * limits.step_tokens] + limits.per_sequence * instance.decoding
    first += limits.kv * _kv(instance) + limits.window_kv * instance.window
    if limits.step_tokens > 1:
        first += linear[2, instance.decoding]
    instance.mode = RUN
    instance.steps = steps
    instance.first_step = first
    instance.slope = limits.kv * instance.decoding * (limits.tokens_per_step * 1e-6)
    instance.end = now + (steps * first + instance.slope * (0.5 * steps * (steps - 1)))
    if flow is not None:
        _first_steps(requests, joined, histogram, now, first)


@helper
def _shorten(
    instance: Array,
    lines: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    limits: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    now: float,
) -> None:
    """A request came during a run of decode steps: if it can enter, the run ends with the step under way."""
    if instance.ready < 0 and not _admissible(
        instance, lines, heap, requests, turns, limits, nodes, chain_at, chain, size
    ):
        return
    first, slope, past = instance.first_step, instance.slope, now - instance.start
    half = first - 0.5 * slope
    steps = int(2.0 * past / (half + np.sqrt(half * half + 2.0 * slope * past)))
    while steps * first + slope * (0.5 * steps * (steps - 1)) < past:
        steps += 1
    while steps > 1 and (steps - 1) * first + slope * (0.5 * (steps - 1) * (steps - 2)) >= past:
        steps -= 1
    if limits.poll > 1:
        late = (instance.polled + steps) % limits.poll
        if late > 0:
            steps += limits.poll - late
    steps = max(steps, 1)
    if steps < instance.steps:
        instance.steps = steps
        instance.end = instance.start + (steps * first + slope * (0.5 * steps * (steps - 1)))


@helper
def _count(histogram: Array, first: float, slope: float, steps: int, weight: int) -> None:
    """Add `weight` times between tokens for each of `steps` steps to the histogram; alike steps fall in one bin."""
    done = 0
    while done < steps:
        seconds = first + slope * done
        at = int(np.floor(np.log10(seconds / HISTOGRAM_LOW_S) * HISTOGRAM_PER_DECADE))
        at = min(max(at, 0), HISTOGRAM_BINS - 1)
        upto = steps
        if slope > 0.0 and at < HISTOGRAM_BINS - 1:
            edge = HISTOGRAM_LOW_S * 10.0 ** ((at + 1) / HISTOGRAM_PER_DECADE)
            upto = min(steps, max(done + 1, int(np.ceil((edge - first) / slope))))
        histogram[at] += weight * (upto - done)
        done = upto


count_in_python = plain(_count)
"""The same for loops that are not jitted."""


@helper
def _finish(instance: Array, requests: Array, i: int, now: float, ended: Array, count: int) -> int:
    q = requests[i]
    q.state = DONE
    q.finish = now
    q.made = q.output
    _leave(instance, requests, i)
    ended[count] = i
    return count + 1


@helper
def _complete(
    instance: Array,
    heap: Array,
    requests: Array,
    turns: Array,
    total: Array,
    limits: Array,
    histogram: Array,
    ended: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    now: float,
) -> int:
    """Account for the iteration or run that ended; returns how many requests ended with it."""
    count = 0
    steps, decoding = instance.steps, instance.decoding
    seconds = now - instance.start
    total.busy_s += seconds
    total.running_s += seconds * (decoding + instance.prefilling)
    if steps > 0 and decoding > 0:
        _count(histogram, instance.first_step, instance.slope, steps, decoding)
        total.iterations += steps
        total.decode_tokens += float(steps) * decoding
        pace = limits.tokens_per_step * 1e-6
        total.kv_tokens += steps * _kv(instance) + decoding * pace * (0.5 * steps * (steps - 1))
        gained = _gained(instance, limits, steps)
        if not limits.reserve:
            instance.used += _growth(turns, instance.step, gained, decoding, limits.block)
            if nodes is not None:
                _evict(instance, nodes, limits.blocks)
        total.used_s += seconds * instance.used
        total.kv_max = max(total.kv_max, instance.used)
        instance.ratio = max(instance.ratio - limits.ratio_decay * steps, limits.ratio_least)
        instance.fraction += steps * limits.tokens_per_step - gained * MILLION
        instance.step += gained
        instance.kv += float(gained) * decoding
        instance.polled = (instance.polled + steps) % max(limits.poll, 1)
        while instance.decoding > 0 and requests[heap[0]].finish_step <= instance.step:
            i = heap[0]
            q = requests[i]
            q.stored = _decoded(instance, q)
            _give_decoding_back(instance, requests, turns, i, limits, nodes, chain_at, chain, size)
            _take_out(heap, requests, 0, instance.decoding)
            instance.decoding -= 1
            instance.kv -= q.stored + 1
            instance.window -= q.held
            count = _finish(instance, requests, i, now, ended, count)
    else:
        total.iterations += 1
        total.used_s += seconds * instance.used
    if instance.mode == ITERATION:
        i, last = instance.prompt_head, -1
        while i >= 0:
            q = requests[i]
            follow = q.next_prompt
            q.left -= q.chunk
            q.chunk = 0
            if nodes is not None and limits.caching:
                done = (q.input + q.made - q.left) // limits.block
                _register(instance, requests, nodes, chain_at, chain, size, i, done)
            if q.left > 0:
                last = i
                i = follow
                continue
            if last < 0:
                instance.prompt_head = follow
            else:
                requests[last].next_prompt = follow
            if follow < 0:
                instance.prompt_tail = last
            instance.prefilling -= 1
            q.stored = q.input + q.made
            if q.made == 0:
                q.first = now
            elif q.finish == q.finish:
                _count(histogram, now - q.finish, 0.0, 1, 1)
            q.made += 1
            if flow is not None and _hands_on(instance, requests, i, flow):
                q.state = HELD
                q.finish = now
                _leave(instance, requests, i)
                ended[count] = i
                count += 1
            elif q.made >= q.output:
                _give_back(instance, requests, i, limits, nodes, chain_at, chain, size, q.blocks, q.stored)
                count = _finish(instance, requests, i, now, ended, count)
            else:
                q.state = DECODE
                q.finish_step = instance.step + q.output - q.made
                heap[instance.decoding] = i
                instance.decoding += 1
                _up(heap, requests, instance.decoding - 1)
                instance.kv += q.stored + 1
                q.held = min(q.stored + 1 + (q.output - q.made) // 2, limits.window)
                instance.window += q.held
                if not limits.reserve:
                    turns[(q.stored + limits.lookahead - instance.step) % limits.block] += 1
            i = follow
    instance.mode = IDLE
    return count


# -- several instances -------------------------------------------------------------------------------------------------
@helper
def _draw(state: Array) -> float:
    """A number in [0, 1) (Steele et al. 2014, SplitMix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@helper
def _load(instances: Array, tokens: Array, r: int, router: int) -> float:
    if router == LEAST_TOKENS:
        return tokens[r]
    return float(instances[r].decoding + instances[r].prefilling + instances[r].waiting + instances[r].promised)


@helper
def _route(
    instances: Array, tokens: Array, q: Array, router: int, turn: int, state: Array, begin: int, end: int
) -> int:
    """One of the instances from `begin` up to `end`."""
    n = end - begin
    if n == 1:
        return begin
    if router == ROUND_ROBIN:
        return begin + turn % n
    if router == RANDOM:
        return begin + int(_draw(state) * n)
    if router == STICKY:
        return begin + q.group % n
    if router == POWER_OF_TWO:
        a = int(_draw(state) * n)
        b = int(_draw(state) * (n - 1))
        if b >= a:
            b += 1
        a += begin
        b += begin
        x, y = _load(instances, tokens, a, router), _load(instances, tokens, b, router)
        return a if x < y or (x == y and a < b) else b
    best, least = begin, np.inf
    for r in range(begin, end):
        x = _load(instances, tokens, r, router)
        if x < least:
            best, least = r, x
    return best


@helper
def _too_long(instance: Array, q: Array, limits: Array) -> bool:
    """Whether no cache of a pool could ever hold a request."""
    most = max(q.input + q.output, limits.reserve_length if limits.reserve else 0)
    return _blocks(most + 2 * limits.lookahead, limits.block) + _extra(q, limits) > limits.blocks


@helper
def _arrive(
    instances: Array,
    lines: Array,
    tokens: Array,
    requests: Array,
    i: int,
    limits: Array,
    turn: int,
    state: Array,
    asking: Array,
    flow: Array,
) -> int:
    """Send a request to an instance, whose number is returned; −1 when no cache could ever hold it.

    Where who answers is chosen first, that instance hears of it first, and its number is returned.
    """
    q = requests[i]
    end = len(instances)
    if flow is not None:
        end = flow[4][0].entries
    k = _route(instances, tokens, q, limits[0].router, turn, state, 0, end)
    q.instance = k
    own = limits[instances[k].pool]
    if flow is not None:
        half = len(requests) // 2
        q.output = 1 if instances[k].hands else requests[i + half].output
        if _too_long(instances[k], q, own):
            q.state = REJECTED
            return -1
        rule = flow[4][0]
        if rule.early and _hands_on(instances[k], requests, i, flow):
            if not _ask(instances, lines, tokens, requests, i + half, limits, asking, flow):
                q.state = REJECTED
                return -1
            tokens[k] += q.input + q.output
            instances[k].promised += 1
            return requests[i + half].instance
    elif _too_long(instances[k], q, own):
        q.state = REJECTED
        return -1
    tokens[k] += q.input + q.output
    _line_up(instances[k], lines[k], requests, i, False)
    return k


@helper
def _ask(
    instances: Array, lines: Array, tokens: Array, requests: Array, i: int, limits: Array, asking: Array, flow: Array
) -> bool:
    """Choose who answers a prompt, and line up there; false when no cache there could ever hold it."""
    q = requests[i]
    rule = flow[4][0]
    turn = np.int64(asking[1])
    asking[1] += np.uint64(1)
    k = _route(instances, tokens, q, rule.router, int(turn), asking, rule.entries, len(instances))
    q.instance = k
    if _too_long(instances[k], q, limits[instances[k].pool]):
        q.state = REJECTED
        return False
    q.made = 0 if rule.first == handover.DECODE_FIRST else 1
    q.swapped = -1
    tokens[k] += q.input + q.output
    _line_up(instances[k], lines[k], requests, i, False)
    return True


@helper
def _handed(
    instances: Array,
    lines: Array,
    tokens: Array,
    requests: Array,
    event: int,
    limits: Array,
    asking: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    now: float,
) -> tuple[int, int, int]:
    """Pass on what one instance tells another; returns the instances that this touches, and who is turned away.

    The event is the answer's row: its prompt is computed, or (where it is told first) it has blocks for it. From twice
    the number of prompts on: its cache has come.
    """
    half = len(requests) // 2
    if event < 2 * half and flow[4][0].early:
        k = requests[event - half].instance
        instances[k].promised -= 1
        _line_up(instances[k], lines[k], requests, event - half, False)
        return k, -1, -1
    if event < 2 * half:
        if _ask(instances, lines, tokens, requests, event, limits, asking, flow):
            return requests[event].instance, -1, -1
        prompt, answers, away = event - half, -1, event
    else:
        prompt, answers, away = event - 2 * half, requests[event - half].instance, -1
        handover.came(instances[answers], requests, event - half, now)
    p = requests[prompt]
    one = instances[p.instance]
    own = limits[one.pool]
    _give_back(one, requests, prompt, own, nodes, chain_at, chain, size, p.blocks, p.stored)
    p.state = DONE if away < 0 else REJECTED
    return answers, p.instance, away


@helper
def _wake(
    k: int,
    instances: Array,
    lines: Array,
    heaps: Array,
    requests: Array,
    turns: Array,
    totals: Array,
    limits: Array,
    linear: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    histogram: Array,
    later: Array,
    when: Array,
    filed: int,
    now: float,
) -> int:
    """Something came to an instance: it begins if it is idle, and may end its run of steps early."""
    one = instances[k]
    own = limits[one.pool]
    if one.mode == IDLE:
        _form(
            one,
            lines[k],
            heaps[k],
            requests,
            turns[k],
            totals[k],
            own,
            linear[one.pool],
            nodes,
            chain_at,
            chain,
            size,
            flow,
            histogram,
            now,
        )
        if flow is not None:
            filed = handover.send(one, requests, own, flow, later, when, filed, now)
    elif one.mode == RUN:
        _shorten(one, lines[k], heaps[k], requests, turns[k], own, nodes, chain_at, chain, size, now)
    return filed


@helper
def _unfile(later: Array, when: Array, count: int) -> int:
    """Remove the first of the later arrivals."""
    count -= 1
    at, i = when[count], later[count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and (
            when[child + 1] < when[child] or (when[child + 1] == when[child] and later[child + 1] < later[child])
        ):
            child += 1
        if at < when[child] or (at == when[child] and i < later[child]):
            break
        when[place] = when[child]
        later[place] = later[child]
        place = child
    when[place] = at
    later[place] = i
    return count


@kernel()
def serve(
    requests: Array,
    order: Array,
    linear: Array,
    limits: Array,
    instances: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
) -> Any:
    """Run all requests through a set of instances.

    Args:
        requests: (R,) of `REQUEST`; seconds, tokens and follow-ups set. With a handover (2·R,): prompts, then answers.
        order: (S,) requests that arrive by the clock, by time; under closed-loop concurrency, those to send in order.
        linear: (P, 2, G) by pool: seconds of an iteration that computes g tokens, for every g up to the budget and all
            decodes; and the part of them that one rank of attention data parallelism does for its own tokens. With
            drafts (P, 4, G): seconds that drafting for g sequences adds, and g tokens of prompts that the draft reads.
        limits: (P,) of `LIMITS`.
        instances: (N,) of `INSTANCE`, zeroed but for lists (−1) and ends (inf).
        nodes: of `NODE`, zeroed: a row of common nodes for each instance, then the others. This and the next three are
            None without prefix caching, for which the loop is compiled without any of it.
        chain_at: (R + 1,) where each request's nodes begin in `chain`.
        chain: (C,) nodes of the requests' prompts and answers, from the start.
        size: (U,) blocks of each node.
        flow: seconds per token, latencies, ports, when ports are free, and one record of `HANDOVER`; None where every
            instance answers the prompts that it computes, for which the loop is compiled without it.

    Returns:
        totals (N,) of `TOTAL`, the histogram of times between tokens, and events (E,) of `SERIES`.
    """
    n = len(instances)
    base = limits[0]
    most = min(limits["max_seqs"].max(), len(requests)) + 1
    heaps = np.empty((n, most), np.int32)
    lines = np.full((n, CLASSES, 2), -1, np.int32)
    turns = np.zeros((n, limits["block"].max()), np.int64)
    totals = np.zeros(n, TOTAL)
    histogram = np.zeros(HISTOGRAM_BINS, np.float64)
    series = np.zeros(1024 if base.every else 0, SERIES)
    kept, events = 0, 0
    ended = np.empty(most, np.int64)
    fresh = np.zeros(n, np.bool_)
    tokens = np.zeros(n, np.float64)
    state = np.zeros(1, np.uint64)
    state[0] = np.uint64(base.seed)
    asking = np.zeros(2, np.uint64)
    asking[0] = np.uint64(base.seed + 1)
    later = np.empty(len(requests) if base.concurrency or len(order) < len(requests) else 0, np.int64)
    when = np.empty(len(later), np.float64)
    filed, sent, turn = 0, 0, 0
    half = len(requests) if flow is None else len(requests) // 2
    if base.concurrency:
        while sent < min(base.concurrency, len(order)):
            filed = handover.file(later, when, filed, order[sent], 0.0)
            sent += 1
    while True:
        now = np.inf
        r = -1
        for k in range(n):
            if instances[k].end < now:
                now, r = instances[k].end, k
        clocked = not base.concurrency and sent < len(order)
        arrival = requests[order[sent]].arrival if clocked else np.inf
        if filed > 0 and when[0] < arrival:
            arrival, clocked = when[0], False
        if arrival == np.inf and r < 0:
            break
        if arrival < now:  # what ends at the same instant comes first
            now = arrival
            touched = 0
            while True:  # all that arrive at this instant are seen together
                if clocked:
                    i = order[sent]
                    sent += 1
                else:
                    i = later[0]
                    filed = _unfile(later, when, filed)
                    if i < half:
                        requests[i].arrival = now
                if flow is not None and i >= half:
                    k, other, i = _handed(
                        instances,
                        lines,
                        tokens,
                        requests,
                        i,
                        limits,
                        asking,
                        nodes,
                        chain_at,
                        chain,
                        size,
                        flow,
                        now,
                    )
                    if k >= 0:
                        fresh[k] = True
                    if other >= 0:
                        fresh[other] = True
                    touched += 1
                else:
                    k = _arrive(instances, lines, tokens, requests, i, limits, turn, state, asking, flow)
                    turn += 1
                    if k >= 0:
                        fresh[k] = True
                        touched += 1
                        i = -1
                if i >= 0 and requests[i].follow >= 0:
                    filed = handover.file(later, when, filed, requests[i].follow, now + requests[i].delay)
                elif i >= 0 and base.concurrency and sent < len(order):
                    filed = handover.file(later, when, filed, order[sent], now + requests[i].delay)
                    sent += 1
                clocked = not base.concurrency and sent < len(order)
                arrival = requests[order[sent]].arrival if clocked else np.inf
                if filed > 0 and when[0] < arrival:
                    arrival, clocked = when[0], False
                if arrival > now:
                    break
            if touched:
                for k in range(n):
                    if fresh[k]:
                        fresh[k] = False
                        filed = _wake(
                            k,
                            instances,
                            lines,
                            heaps,
                            requests,
                            turns,
                            totals,
                            limits,
                            linear,
                            nodes,
                            chain_at,
                            chain,
                            size,
                            flow,
                            histogram,
                            later,
                            when,
                            filed,
                            now,
                        )
            continue
        one = instances[r]
        own = limits[one.pool]
        if base.every:
            if events % base.every == 0:
                if kept == len(series):
                    longer = np.zeros(2 * kept, SERIES)
                    longer[:kept] = series
                    series = longer
                row = series[kept]
                row.start, row.seconds, row.steps = one.start, one.end - one.start, max(one.steps, 1)
                row.decoding = one.decoding
                row.prompts = one.prefilling
                row.waiting, row.used, row.instance = one.waiting, one.used, r
                kept += 1
            events += 1
        count = _complete(
            one, heaps[r], requests, turns[r], totals[r], own, histogram, ended, nodes, chain_at, chain, size, flow, now
        )
        for j in range(count):
            q = requests[ended[j]]
            tokens[r] -= q.input + q.output
            if flow is not None and q.state == HELD:
                k = requests[ended[j] + half].instance
                to = limits[instances[k if k >= 0 else n - 1].pool]
                filed = handover.prompt_ended(requests, to, flow, ended[j], later, when, filed, now)
            elif q.follow >= 0:
                filed = handover.file(later, when, filed, q.follow, now + q.delay)
            elif base.concurrency and sent < len(order):
                filed = handover.file(later, when, filed, order[sent], now + q.delay)
                sent += 1
        touched = 0
        while filed > 0 and when[0] <= now:  # an answer's successor may join the very next iteration
            i = later[0]
            filed = _unfile(later, when, filed)
            k, other = -1, -1
            if flow is not None and i >= half:
                k, other, i = _handed(
                    instances,
                    lines,
                    tokens,
                    requests,
                    i,
                    limits,
                    asking,
                    nodes,
                    chain_at,
                    chain,
                    size,
                    flow,
                    now,
                )
            else:
                requests[i].arrival = now
                k = _arrive(instances, lines, tokens, requests, i, limits, turn, state, asking, flow)
                turn += 1
                if k >= 0:
                    i = -1
            if i >= 0 and requests[i].follow >= 0:
                filed = handover.file(later, when, filed, requests[i].follow, now + requests[i].delay)
            elif i >= 0 and base.concurrency and sent < len(order):
                filed = handover.file(later, when, filed, order[sent], now + requests[i].delay)
                sent += 1
            if k >= 0:
                fresh[k] = True
                touched += 1
            if other >= 0:
                fresh[other] = True
                touched += 1
        fresh[r] = False
        if touched:
            for k in range(n):
                if fresh[k]:
                    fresh[k] = False
                    filed = _wake(
                        k,
                        instances,
                        lines,
                        heaps,
                        requests,
                        turns,
                        totals,
                        limits,
                        linear,
                        nodes,
                        chain_at,
                        chain,
                        size,
                        flow,
                        histogram,
                        later,
                        when,
                        filed,
                        now,
                    )
        _form(
            one,
            lines[r],
            heaps[r],
            requests,
            turns[r],
            totals[r],
            own,
            linear[one.pool],
            nodes,
            chain_at,
            chain,
            size,
            flow,
            histogram,
            now,
        )
        if flow is not None:
            filed = handover.send(one, requests, own, flow, later, when, filed, now)
    return totals, histogram, series[:kept]
