"""Where each instance lies: nodes and devices, filled in the order of the pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from windtunnel.specs.cluster import groups_of

if TYPE_CHECKING:
    from windtunnel.exporters.servers.target import Server, ServerDraft
    from windtunnel.specs.cluster import ClusterSpec


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one instance on one node."""

    server: Server
    instance: int
    rank: int
    """Rank of the node among those of the instance."""
    node: int
    devices: tuple[int, ...]

    @property
    def port(self) -> int:
        """Port on which the instance listens."""
        return self.server.port + self.instance


def place(draft: ServerDraft, cluster: ClusterSpec) -> list[Part]:
    """Put instances on nodes, largest instances first, so that none is torn over more nodes than it needs."""
    free = [list(range(part.devices_per_node)) for part in groups_of(cluster) for _ in range(part.nodes)]
    parts = []
    for server in sorted(draft.servers, key=lambda server: -server.nodes * server.per_node):
        for instance in range(server.pool.spec.replicas):
            first = server.pool.first_node
            own = range(first, first + server.pool.cluster.nodes)
            nodes = [i for i in own if len(free[i]) >= server.per_node][: server.nodes]
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
