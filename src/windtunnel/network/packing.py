"""Messages of many pieces: a copy for each, or one kernel that packs them first, and where the packed bytes then go.

A strided datatype is so many pieces of equal length. A library that treats each piece alone pays a copy's issue for
each; a kernel pays its start once and memory traffic in sectors, so that short pieces cost more than their bytes. What
is packed leaves from the device, from host memory into which the kernel writes, or from host memory after a copy; each
is best somewhere.

Source: Pearson et al., TEMPI, HPDC 2021, sections 3 to 5 (methods named device, one-shot, staged).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

SECTOR_BYTES = 32.0
"""Least that a load or store moves in device memory (NVIDIA's programming guide)."""


@dataclass(frozen=True, slots=True)
class Strided:
    """So many pieces of equal length, apart from one another."""

    pieces: float
    piece_bytes: float

    @property
    def nbytes(self) -> float:
        """All of them."""
        return self.pieces * self.piece_bytes

    @property
    def touched_bytes(self) -> float:
        """Moved in memory when the pieces are read or written: whole sectors."""
        return self.pieces * ceil(self.piece_bytes / SECTOR_BYTES) * SECTOR_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Packer:
    """What copies, kernels and messages take on one system. Seconds and bytes/s."""

    memory_bytes_per_s: float
    host_bytes_per_s: float
    """Link between device and host, one direction."""
    wire_bytes_per_s: float
    copy_s: float = 10e-6
    """Seconds of a copy that the host issues and waits for (10 µs; 5 to 20 on POWER9 and x86; prior)."""
    kernel_s: float = 10e-6
    """Seconds of a kernel that the host launches and waits for (10 µs; prior)."""
    device_message_s: float = 20e-6
    """Least of a message from device memory (two-node send_recv of 1 KiB: 17 to 30 µs, vidur and apex_plus rows)."""
    host_message_s: float = 2.5e-6
    """Least of a message from host memory (InfiniBand EDR with MPI: 2 to 3 µs; prior)."""
    memory_efficiency: float = 0.8
    """Share of memory's rate that a copying kernel reaches (prior; streaming kernels 0.75 to 0.92)."""

    def copied_s(self, what: Strided) -> float:
        """Pieces copied one by one into a buffer."""
        return what.pieces * self.copy_s + 2.0 * what.nbytes / (self.memory_efficiency * self.memory_bytes_per_s)

    def packed_s(self, what: Strided, *, to_host: bool = False) -> float:
        """One kernel, into device memory or straight into host memory."""
        rate = self.memory_efficiency * self.memory_bytes_per_s
        if not to_host:
            return self.kernel_s + (what.touched_bytes + what.nbytes) / rate
        return self.kernel_s + max(what.touched_bytes / rate, what.nbytes / self.host_bytes_per_s)

    def sent_s(self, what: Strided) -> dict[str, float]:
        """Method → seconds from pieces on one device to pieces on another; `copied`: piece by piece on both sides."""
        size = what.nbytes
        wire, link = size / self.wire_bytes_per_s, size / self.host_bytes_per_s
        device = self.device_message_s + wire
        host = self.host_message_s + wire
        pack, through = self.packed_s(what), self.packed_s(what, to_host=True)
        return {
            "copied": 2.0 * self.copied_s(what) + device,
            "device": 2.0 * pack + device,
            "one-shot": 2.0 * through + host,
            "staged": 2.0 * (pack + self.copy_s + link) + host,
        }

    def best(self, what: Strided) -> tuple[str, float]:
        """The soonest method that packs."""
        ways = {name: seconds for name, seconds in self.sent_s(what).items() if name != "copied"}
        name = min(ways, key=lambda key: ways[key])
        return name, ways[name]
