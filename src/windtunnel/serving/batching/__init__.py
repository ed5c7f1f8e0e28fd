"""How batches are formed: one file a policy, found by the registry and by entry points `windtunnel.policies`."""

from windtunnel.serving.batching.base import POLICIES, BatchPolicy, limits_of

__all__ = ["POLICIES", "BatchPolicy", "limits_of"]
