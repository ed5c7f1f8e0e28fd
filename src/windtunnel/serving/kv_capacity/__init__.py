"""Cache of an instance: blocks from device memory by the engine's own rule. One file a rule."""

from windtunnel.serving.kv_capacity.base import RULES, KvCapacity
from windtunnel.serving.kv_capacity.blocks_per_instance import CacheSettings, capacity

__all__ = ["RULES", "CacheSettings", "KvCapacity", "capacity"]
