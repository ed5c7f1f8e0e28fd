"""What the jitted request loop reads and changes: arrays in small named tuples, by subject.

All runs have all tuples, so that one machine code serves them; what a run does not have is empty (`kernel_inputs` makes
them). R requests (with KV transfers first prompts, then answers), N instances, P pools, J joints.
"""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

from windtunnel.jit import expanded, helper

Array = Any
Record = Any
"""One record of an array, by reference."""


class Fleet(NamedTuple):
    """All instances."""

    limits: Array
    """(P,) of `LIMITS`."""
    linear: Array
    """(P, 4, G) by pool: seconds of an iteration that computes g tokens, for every g up to the budget and all decodes;
    the part of them that one rank of attention data parallelism does for its own tokens; with drafts, seconds that
    drafting for g sequences adds, and g tokens of prompts that the draft reads. (P, 2, G) where no pool drafts."""
    instances: Array
    """(N,) of `INSTANCE`."""
    queues: Array
    """(N, CLASSES, 2) first and last request that waits in each class of priority, or −1."""
    heaps: Array
    """(N, most sequences + 1) requests that decode, by (finish step, number)."""
    turns: Array
    """(N, block) sequences that need a new block at a step: `turns[(slots − step) mod block]`."""
    totals: Array
    """(N,) of `TOTAL`."""
    tokens: Array
    """(N,) tokens of prompts and answers that each has still to end."""
    fresh: Array
    """(N,) whether something came to an instance at this instant."""


class Lane(NamedTuple):
    """One instance: its part of each array of `Fleet`."""

    instance: Record
    limits: Record
    linear: Array
    queues: Array
    heap: Array
    turns: Array
    total: Record


@expanded
def lane_of(fleet: Fleet, k: int) -> Lane:
    """Instance k."""
    instance = fleet.instances[k]
    pool = instance.pool
    return Lane(
        instance,
        fleet.limits[pool],
        fleet.linear[pool],
        fleet.queues[k],
        fleet.heaps[k],
        fleet.turns[k],
        fleet.totals[k],
    )


class PrefixTree(NamedTuple):
    """Content of prompts and answers. Empty without prefix caching."""

    nodes: Array
    """Of `NODE`: a row of common nodes for each instance, then the others."""
    chain_at: Array
    """(R + 1,) where each request's nodes begin in `chain`."""
    chain: Array
    """(C,) nodes of the requests' prompts and answers, from the start."""
    size: Array
    """(U,) blocks of each node."""


class Transfer(NamedTuple):
    """KV caches that move between instances. `rule` is empty where every instance answers the prompts it computes."""

    token_s: Array
    """(3, N, N) seconds per token of the transfer alone, of the sender's port, of the receiver's port."""
    fixed_s: Array
    """(N, N) seconds of latency."""
    port: Array
    """(N,) port of each instance."""
    busy: Array
    """Seconds at which each port is free."""
    rule: Array
    """(1,) of `KV_TRANSFER`, or (0,)."""


class Pipelines(NamedTuple):
    """Pipelines of L lines that instances are lanes of. Empty where each instance is on its own."""

    first: Array
    """(L,) first instance."""
    lanes: Array
    """(L,) how many instances."""
    stages: Array
    """(L,) how many stages."""
    shares: Array
    """(P, S) of each stage in the layers' seconds."""
    costs: Array
    """(P, 6) seconds of `PipelineStages` beside the layers."""
    free: Array
    """(L, S + 1) seconds at which its scheduler and its stages are free."""


class Graph(NamedTuple):
    """Calls and joints that wait for several others. Empty where requests follow one another at most.

    Nodes are the requests, then the joints.
    """

    start: Array
    """(R + J + 1,) where each node's children begin in `children`."""
    children: Array
    task: Array
    """(R + J,) task of each node."""
    pending: Array
    """(R + J,) parents that it still waits for."""
    slack: Array
    """(R + J,) how many of its parents may be cancelled."""
    left: Array
    """(T,) nodes of each task that are not over."""
    stack: Array
    """Room for nodes that are over and not acted on yet; −1 − n where node n was cancelled."""
    joints: Array
    """(J,) of `JOINT`."""
    servers: Array
    """Classes of tool servers, of `TOOLS`."""
    line: Array
    """Joints that wait for a slot, class by class."""
    ready_s: Array
    """Seconds since when each of `line` waits."""


class Pins(NamedTuple):
    """Calls that keep or drop their blocks. Empty where none does."""

    start: Array
    """(R + J + 1,) where the parents of each node begin in `parents`."""
    parents: Array
    seen: Array
    """(R + J,) request + 1 that last looked at a joint."""
    stack: Array
    """Room for nodes."""


class Routing(NamedTuple):
    """Where requests are sent. G groups of instances."""

    groups: Array
    """(G + 1, 2) lanes [from, to) that requests of each `pool` are routed to; last, those that answer for others."""
    homes: Array
    """(G + 1, K) instance of each gang, or −1."""
    turn: Array
    """(G + 1,) requests routed so far."""
    random: Array
    """(G + 1,) state of the random numbers."""


class Events(NamedTuple):
    """The heap of events that other events bring on, ordered by (time, number).

    Numbers: [0, R) requests that are sent, or messages about answers; from 2·R on further messages about answers; from
    4·R on ends of joints' service; then ends of pins.
    """

    what: Array
    due_s: Array
    count: Array
    """(1,) how many there are."""


class Loop(NamedTuple):
    """All of it."""

    requests: Array
    """(R,) of `REQUEST`."""
    order: Array
    """(S,) requests that arrive by the clock, by time; under closed-loop concurrency, those to send in order."""
    fleet: Fleet
    tree: PrefixTree
    transfer: Transfer
    pipelines: Pipelines
    graph: Graph
    pins: Pins
    routing: Routing
    events: Events
    counts: Array
    """(1,) of `COUNTS`."""
    ended: Array
    """Room for the requests that end with one iteration."""
    histogram: Array
    """Counts of times between tokens (`HISTOGRAM_BINS`)."""


class Batch(NamedTuple):
    """What the prompts of an iteration add up to."""

    budget: int
    """Tokens that it may still compute."""
    each: int
    """Tokens of one prompt at most: one rank computes it, within its own budget."""
    tokens: int
    sequences: int
    moved: int
    """Blocks that are swapped in or out."""
    pairs: float
    """Pairs of queries and keys."""


@helper
def first_joint(requests: Array) -> int:
    """Number of the event that ends the service of joint 0."""
    return 4 * len(requests)
