"""What the network model answers: seconds alone and the work that contention is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTime:
    """One collective, or an array of them (fields broadcast to one shape).

    The engine turns this into one task: `alone_s`, its channels as slots, its bytes as work on link, NIC and HBM rates.
    """

    alone_s: Floats
    """Seconds with nothing else on the network."""
    latency_s: Floats
    """Part of it that does not depend on the size."""
    work_scale_up_bytes: Floats
    """Sent by the busiest rank through its scale-up link."""
    work_scale_out_bytes: Floats
    """Sent by a rank through its NIC share."""
    channels: Floats
    """Thread blocks (SM slots) held from start to end; 0 where a copy engine or the fabric does the work."""
    hbm_bytes: Floats
    """Read and written in one rank's memory."""
    algorithm: npt.NDArray[np.str_]
    """Algorithm (and protocol after a slash) that was taken."""
