"""Where each instance lies: nodes and devices, filled in the order of the pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.exporters.servers.target import Server, ServerDraft
    from windtunnel.specs.cluster import ClusterSpec


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one instance on one node."""

    server: Server
    instance: int
    rank: int
    """Of the node among the instance's own."""
    node: int
    devices: tuple[int, ...]

    @property
    def port(self) -> int:
        """Where the instance listens."""
        return self.server.port + self.instance


def place(draft: ServerDraft, cluster: ClusterSpec) -> list[Part]:
    """Put instances on nodes, largest instances first, so that none is torn over more nodes than it needs."""
    size = cluster.devices_per_node
    free = [list(range(size)) for _ in range(cluster.nodes)]
    parts = []
    for server in sorted(draft.servers, key=lambda server: -server.nodes * server.per_node):
        for instance in range(server.pool.spec.replicas):
            nodes = [i for i, left in enumerate(free) if len(left) >= server.per_node][: server.nodes]
            if len(nodes) < server.nodes:
                draft.lacks(
                    f"{server.pool.name} {instance}: no {server.nodes} nodes have {server.per_node} devices left; "
                    "it is left out of serve.sh"
                )
                continue
            for rank, node in enumerate(nodes):
                taken = tuple(free[node][: server.per_node])
                free[node] = free[node][server.per_node :]
                parts.append(Part(server, instance, rank, node, taken))
    order = {id(server): i for i, server in enumerate(draft.servers)}
    return sorted(parts, key=lambda part: (order[id(part.server)], part.instance, part.rank))
