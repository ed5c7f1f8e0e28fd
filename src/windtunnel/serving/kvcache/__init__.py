"""Cache of an instance: blocks from device memory by the engine's own rule. One file a rule."""

from windtunnel.serving.kvcache.base import RULES, KvCapacity
from windtunnel.serving.kvcache.fit import capacity

__all__ = ["RULES", "KvCapacity", "capacity"]
