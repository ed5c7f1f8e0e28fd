"""How drafting and verifying follow each other, one file each."""

from windtunnel.serving.speculation.orders.base import ORDERS, Order, Pair

__all__ = ["ORDERS", "Order", "Pair"]
