"""Optimizer steps outside the device: seconds and bytes per parameter on the host's links, memories and processors.

Sources: Ren et al. 2021 (arXiv 2101.06840), section 4 (gradients down, update in host memory, weights back up);
Rajbhandari et al. 2021 (arXiv 2104.07857), section 5.2.2 (states stream from and to drives).
Valid for: vectorised Adam on the host.
"""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.plan import Offload
from windtunnel.training.offload.memory_tiers import (
    NVME_BYTES_PER_S,
    PAGEABLE_BYTES_PER_S,
    UPDATE_FRACTION,
    core_params_per_s,
    drive_bytes_per_s,
    host_memory_bytes_per_s,
    link_bytes_per_s,
    memory_bytes_per_s,
    near_rate,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUpdate:
    """Seconds and bytes per parameter that one device's share of its node takes for an optimizer step."""

    down: float
    """Seconds in which its gradient crosses the host link."""
    compute: float
    """Seconds of the update on the processors, or on the memory that holds its state where that is slower."""
    up: float
    """Seconds in which its new weight crosses the host link."""
    read: float
    """Seconds in which drives read its optimizer state."""
    write: float
    """Seconds in which drives write its optimizer state."""
    gradient_bytes: float
    """Bytes of its gradient that cross the host link."""
    weight_bytes: float
    """Bytes of its new weight that cross the host link."""
    state_bytes: float
    """Bytes of its optimizer state."""
    moved_bytes: float
    """Bytes of host memory that its update reads and writes."""
    widen: float = 0.0
    """Seconds in which backward waits until the gradient is on the host in 32 bits."""

    @classmethod
    def of(
        cls,
        cluster: ClusterSpec,
        offload: Offload,
        *,
        moved: float,
        state: float,
        gradient: float,
        weight: float,
        sent: float = 4.0,
    ) -> HostUpdate:
        """The cost of one parameter on a node.

        Args:
            cluster: The node.
            offload: What lives where.
            moved: Bytes of memory that an update reads and writes.
            state: Bytes of optimizer state and master weight.
            gradient: Bytes of a gradient.
            weight: Bytes of a weight.
            sent: Bytes of a gradient as backward leaves it.
        """
        link = link_bytes_per_s(cluster)
        down = gradient * (1.0 - offload.gradients)
        up = weight * (1.0 - offload.params)
        widen = 0.0
        if offload.widening == "host" and sent < 4.0:
            widen = widening_s(cluster, sent)
            down = 0.0
        tier = offload.tier_of("optimizer")
        in_host = moved - 2.0 * state if tier == "cxl" else moved
        compute = max(in_host / (UPDATE_FRACTION * host_memory_bytes_per_s(cluster)), 1.0 / core_params_per_s(cluster))
        read = write = 0.0
        if tier == "cxl":  # the link to a card carries reads and writes side by side
            compute = max(compute, state / memory_bytes_per_s(tier, cluster, stripe=offload.stripe))
        elif tier == "nvme" and cluster.storage is None:
            read = write = moved / NVME_BYTES_PER_S
        elif tier == "nvme":
            read = state / drive_bytes_per_s(cluster, write=False)
            write = state / drive_bytes_per_s(cluster, write=True)
        if offload.params and offload.tier_of("params") == "nvme" and cluster.storage is not None:
            write += weight * offload.params / drive_bytes_per_s(cluster, write=True)
        return cls(
            down=down / link,
            compute=compute,
            up=up / link,
            read=read,
            write=write,
            gradient_bytes=down,
            weight_bytes=up,
            state_bytes=state,
            moved_bytes=moved,
            widen=widen,
        )

    def seconds(self, offload: Offload) -> float:
        """Seconds per parameter after the last gradient: they run as a pipeline, or in turn (`update: in_turn`)."""
        parts = (self.down, self.compute, self.up, self.read, self.write)
        return sum(parts) if offload.update == "in_turn" else max(parts)

    def on_device(self, cluster: ClusterSpec, offload: Offload) -> float:
        """Seconds per parameter to copy optimizer state between its tier and the device, in one direction."""
        return self.state_bytes / near_rate(offload.tier_of("optimizer"), cluster, stripe=offload.stripe)


def widening_s(cluster: ClusterSpec, sent: float) -> float:
    """Seconds until a 16-bit gradient is on the host in 32 bits.

    The gradient goes to a page-locked buffer and back to the device, which computes its norm. It then comes down into
    a 16-bit tensor that PyTorch allocates; the host reads that tensor and writes 32 bits.

    Sources: DeepSpeed `runtime/zero/stage3.py`, `partition_grads` (0.8 to 0.15, before gradients were cast on the
    device); PyTorch `aten/src/ATen/native/cuda/Copy.cu`, `copy_kernel_cuda` (types change on the processor).
    """
    moved = (sent + 4.0) / (UPDATE_FRACTION * host_memory_bytes_per_s(cluster))
    return 2.0 * sent / link_bytes_per_s(cluster) + sent / PAGEABLE_BYTES_PER_S + moved


def is_spelt_out(offload: Offload) -> bool:
    """Whether links, drives and processors run the update as tasks of the step; else it is one number of seconds."""
    return offload.optimizer > 0 and (offload.update == "beside_backward" or offload.update_on_device > 0)
