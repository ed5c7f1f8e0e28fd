"""Kubernetes objects of a deployment: a workload and a service a pool, one in front, the files in a ConfigMap.

One instance is a Deployment, and so are instances that come and go; several are a StatefulSet, whose pods have names
that the entry can list; instances of several nodes are a LeaderWorkerSet. Sources: Kubernetes documentation,
"Deployments", "StatefulSets", "Configure Liveness, Readiness and Startup Probes"; LeaderWorkerSet API
leaderworkerset.x-k8s.io/v1 (LWS_LEADER_ADDRESS, LWS_WORKER_INDEX, LWS_GROUP_SIZE in the environment; a headless service
of the set's own name).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from windtunnel.exporters.servers.autoscaler import scaled_object
from windtunnel.exporters.servers.scripts import said
from windtunnel.exporters.wrappers import RESOURCE, Readable

if TYPE_CHECKING:
    from windtunnel.exporters.servers.target import Server, ServerDraft
    from windtunnel.specs.autoscale import AutoscaleSpec

LEADER = "leaderworkerset.sigs.k8s.io"
PROBE_S = 10


def objects(
    title: str, draft: ServerDraft, target: str, name: str, files: dict[str, str], scaler: AutoscaleSpec | None = None
) -> str:
    """All objects of a deployment as one file, with what scales its workload."""
    documents: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(files)}
    ]
    urls = {}
    for server in draft.servers:
        own = f"{name}-{server.pool.name}"
        documents += _pool(own, name, target, server, scaled=scaler is not None)
        if scaler is not None:
            kind = next(one["kind"] for one in documents if one["metadata"]["name"] == own)
            documents.append(scaled_object(own, kind, target, scaler))
        urls[server.pool.name] = _addresses(own, server)
    if draft.entry is not None:
        lines = ["set -euo pipefail", f"PORT={draft.entry.port}", *draft.entry.lines(urls)]
        documents += _entry(f"{name}-entry", name, "\n".join(lines), draft.entry.port)
    text: str = yaml.dump_all(documents, Dumper=Readable, sort_keys=False, width=120)
    hints = ["set the containers' images, and a volume or a secret for the weights"]
    if any(server.nodes > 1 for server in draft.servers):
        hints.append("the LeaderWorkerSet controller has to be installed")
    if scaler is not None:
        hints.append("KEDA has to be installed, and Prometheus has to read the pods' metrics: set its address")
    return "\n".join([said(title, draft), *(f"# {hint}" for hint in hints)]) + "\n" + text


def _addresses(own: str, server: Server) -> list[str]:
    """Where each instance of a pool answers."""
    count, port = server.pool.spec.replicas, server.port
    if server.nodes == 1 and count == 1:
        return [f"{own}:{port}"]
    return [f"{own}-{i}.{own}:{port}" for i in range(count)]


def _pool(own: str, name: str, target: str, server: Server, *, scaled: bool) -> list[dict[str, Any]]:
    labels = {"app": name, "pool": server.pool.name}
    script = f"/launch/{target}-{server.pool.name}.sh"
    count = server.pool.spec.replicas
    if server.nodes > 1:
        rank = 'NODE_RANK="$LWS_WORKER_INDEX" LEADER="$LWS_LEADER_ADDRESS"'
        leader, worker = (_template(labels, server, script, rank) for _ in range(2))
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):  # only the leader answers
            del worker["spec"]["containers"][0][probe]
        group = {
            "size": server.nodes,
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": leader,
            "workerTemplate": worker,
        }
        workload = {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": own},
            "spec": {"replicas": count, "leaderWorkerTemplate": group},
        }
        chosen = {f"{LEADER}/name": own, f"{LEADER}/worker-index": "0"}
        return [workload, _service(f"{own}-front", chosen, server.port)]
    template = _template(labels, server, script, "")
    spec: dict[str, Any] = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    kind = "Deployment"
    named = count > 1 and not scaled
    if named:
        kind = "StatefulSet"
        spec |= {"serviceName": own, "podManagementPolicy": "Parallel"}
    workload = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": own, "labels": labels}, "spec": spec}
    return [workload, _service(own, labels, server.port, headless=named)]


def _template(labels: dict[str, str], server: Server, script: str, before: str) -> dict[str, Any]:
    resource = RESOURCE.get(server.pool.cluster.device.vendor.lower(), "nvidia.com/gpu")
    get = {"httpGet": {"path": server.health, "port": server.port}, "periodSeconds": PROBE_S, "timeoutSeconds": 5}
    container: dict[str, Any] = {
        "name": "server",
        "image": "REPLACE-WITH-YOUR-IMAGE",
        "command": ["bash", "-c", f"{before} exec bash {script}".strip()],
        "env": [{"name": "PORT", "value": str(server.port)}],
        "ports": [{"containerPort": server.port}],
        "startupProbe": {**get, "failureThreshold": -(-server.start_s // PROBE_S)},
        "readinessProbe": {**get, "failureThreshold": 3},
        "livenessProbe": {**get, "failureThreshold": 6},
        "resources": {"limits": {resource: str(server.per_node)}},
        "volumeMounts": [{"name": "launch", "mountPath": "/launch"}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    volumes = [
        {"name": "launch", "configMap": {"name": labels["app"]}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}


def _service(name: str, selector: dict[str, str], port: int, *, headless: bool = False) -> dict[str, Any]:
    spec: dict[str, Any] = {"selector": selector, "ports": [{"port": port, "targetPort": port}]}
    if headless:
        spec |= {"clusterIP": "None"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _entry(own: str, name: str, text: str, port: int) -> list[dict[str, Any]]:
    labels = {"app": name, "pool": "entry"}
    probe = {"tcpSocket": {"port": port}, "periodSeconds": PROBE_S}
    container = {
        "name": "entry",
        "image": "REPLACE-WITH-YOUR-IMAGE",
        "command": ["bash", "-c", text],
        "ports": [{"containerPort": port}],
        "readinessProbe": probe,
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": own, "labels": labels}, "spec": spec},
        _service(own, labels, port),
    ]
