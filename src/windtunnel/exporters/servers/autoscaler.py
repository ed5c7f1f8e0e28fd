"""`serving.autoscale` as a KEDA ScaledObject: the same rule, fed by the engine's own metrics through Prometheus.

KEDA hands the trigger to Kubernetes' horizontal autoscaler, which takes ceil(sum of the query / threshold) instances
for a metric of type AverageValue. `serving.autoscale` wants ceil(instances · signal / target), the same with the sum of
the signal as query. Looks back over `cooldown_s` before instances go are the autoscaler's stabilisation window.

Sources: KEDA documentation, "ScaledObject specification", "Prometheus" scaler; Kubernetes documentation, "Horizontal
Pod Autoscaling"; metric names: vLLM docs, "Production Metrics"; SGLang docs, "Production Metrics" (`--enable-metrics`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windtunnel.exporters.servers.deployed import Deployed
    from windtunnel.exporters.servers.target import ServerDraft
    from windtunnel.specs.autoscale import AutoscaleSpec

SYNC_S = 15
"""Between two looks of Kubernetes' autoscaler, unless its controller is configured otherwise."""
METRICS = {
    "vllm": {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv_cache_usage": "vllm:kv_cache_usage_perc",
        "ended": "vllm:request_success_total",
    },
    "sglang": {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "kv_cache_usage": "sglang:token_usage",
        "ended": "sglang:num_requests_total",
    },
}
"""Target → what is measured → name of the metric."""
_API = {"Deployment": "apps/v1", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}


def scales(d: Deployed, target: str, draft: ServerDraft) -> AutoscaleSpec | None:
    """The autoscaler that can be written for a target; says why where it cannot."""
    spec = d.serving.autoscale
    if spec is None:
        return None
    if spec.method != "replicas":
        draft.lacks(f"serving.autoscale: no autoscaler of Kubernetes changes the size of an instance ({spec.method})")
        return None
    if target not in METRICS:
        draft.lacks(f"serving.autoscale: which metrics {target} shows to Prometheus is not known here")
        return None
    if draft.entry is not None:
        router = d.serving.router if isinstance(d.serving.router, str) else "of the scenario"
        draft.entry = None
        draft.lacks(f"router {router}: the Service spreads connections over instances that come and go")
    if target == "sglang":
        for server in draft.servers:
            draft.set(server, "--enable-metrics")
    if spec.interval_s != SYNC_S:
        draft.note(f"serving.autoscale.interval_s {spec.interval_s:g}: looks come every {SYNC_S} s, by the controller")
    if spec.signal == "rate":
        draft.note("serving.autoscale.signal rate: requests that ended, which follow those that come")
    return spec


def query(target: str, spec: AutoscaleSpec, pods: str) -> str:
    """The signal, summed over instances."""
    names, chosen = METRICS[target], f'{{pod=~"{pods}-.*"}}'
    if spec.signal == "concurrency":
        return f"sum({names['running']}{chosen}) + sum({names['waiting']}{chosen})"
    if spec.signal == "rate":
        return f"sum(rate({names['ended']}{chosen}[{max(round(2 * spec.interval_s), 60)}s]))"
    return f"sum({names[spec.signal]}{chosen})"


def scaled_object(own: str, kind: str, target: str, spec: AutoscaleSpec) -> dict[str, Any]:
    """The object that scales a workload."""
    window = {
        "scaleDown": {"stabilizationWindowSeconds": round(spec.cooldown_s)},
        "scaleUp": {"stabilizationWindowSeconds": 0},
    }
    trigger = {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": "REPLACE-WITH-YOUR-PROMETHEUS",
            "query": query(target, spec, own),
            "threshold": f"{spec.target:g}",
        },
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": own},
        "spec": {
            "scaleTargetRef": {"apiVersion": _API[kind], "kind": kind, "name": own},
            "pollingInterval": max(round(spec.interval_s), 1),
            "minReplicaCount": spec.min,
            "maxReplicaCount": spec.max,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": window}},
            "triggers": [trigger],
        },
    }
