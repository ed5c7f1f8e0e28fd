"""What a run takes next to time: energy of the building, money, carbon."""

from __future__ import annotations

from dataclasses import dataclass

_JOULES_A_KWH = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Of a whole run."""

    energy_kwh: float
    cost: float | None
    """Money; None without a price."""
    carbon_kg: float | None
    """None without a grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What the seconds of a run's nodes cost."""

    job_nodes: float
    spares: float
    """Held next to the job: hot spares, or nodes of a spot fleet that it cannot use."""
    devices_per_node: int
    idle_w: float
    """Draw of a device that waits."""
    price_per_device_hour: float | None
    price_per_kwh: float | None
    """None: energy is in the price of a device's hour."""
    pue: float
    """Energy of the building over that of its computers."""

    def bill(self, mean_power_w: float, wall_s: float, running_s: float, g_co2_per_kwh: float | None) -> Bill:
        """Bill of a run.

        Args:
            mean_power_w: Mean draw of one device while steps run.
            wall_s: How long job and spares are held.
            running_s: How long steps run, those of lost work included.
            g_co2_per_kwh: Of the grid; None: no carbon.
        """
        nodes = self.job_nodes
        stopped = (wall_s - running_s) * nodes + wall_s * self.spares
        joules = mean_power_w * running_s * nodes + self.idle_w * stopped
        kwh = joules * self.devices_per_node * self.pue / _JOULES_A_KWH
        price, cost = self.price_per_device_hour, None
        if price is not None:
            cost = price * (nodes + self.spares) * self.devices_per_node * wall_s / 3600.0
        if self.price_per_kwh is not None:
            cost = (cost or 0.0) + self.price_per_kwh * kwh
        carbon = None if g_co2_per_kwh is None else kwh * g_co2_per_kwh / 1000.0
        return Bill(energy_kwh=kwh, cost=cost, carbon_kg=carbon)
