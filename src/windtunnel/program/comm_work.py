"""What tasks take: seconds alone, and the work that they put on the rates which tasks of a device share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Mask, Rows


@dataclass(frozen=True, slots=True)
class CommWork:
    """Seconds and work of tasks, most of them collectives. All columns have the same shape."""

    seconds: Floats
    """Seconds that each task takes where nothing runs next to it."""
    scale_up_bytes: Floats
    """Bytes that one device sends over the scale-up network."""
    scale_out_bytes: Floats
    """Bytes that one device sends over the scale-out network."""
    sm_seconds: Floats
    """Seconds of the whole device's SMs: the share that a task keeps busy times its seconds."""
    hbm_bytes: Floats
    """Bytes of device memory that are read and written."""

    @classmethod
    def of(
        cls,
        seconds: npt.ArrayLike,
        *,
        scale_up_bytes: npt.ArrayLike = 0.0,
        scale_out_bytes: npt.ArrayLike = 0.0,
        sm_seconds: npt.ArrayLike = 0.0,
        hbm_bytes: npt.ArrayLike = 0.0,
    ) -> CommWork:
        """Columns from figures that broadcast to the shape of `seconds`; those not given are zero."""
        base = np.asarray(seconds, np.float64)

        def full(values: npt.ArrayLike) -> Floats:
            return np.broadcast_to(np.asarray(values, np.float64), base.shape)

        return cls(base, full(scale_up_bytes), full(scale_out_bytes), full(sm_seconds), full(hbm_bytes))

    @classmethod
    def total(cls, works: Sequence[CommWork]) -> CommWork:
        """The sum of tasks that follow one another."""
        columns = zip(*(work.columns for work in works), strict=True)
        return cls(*(np.sum(column, axis=0) for column in columns))

    @classmethod
    def choose(cls, condition: Mask, chosen: CommWork, other: CommWork) -> CommWork:
        """`chosen` where the condition holds, `other` elsewhere."""
        pairs = zip(chosen.columns, other.columns, strict=True)
        return cls(*(np.where(condition, one, two) for one, two in pairs))

    @property
    def columns(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The fields in their order."""
        return self.seconds, self.scale_up_bytes, self.scale_out_bytes, self.sm_seconds, self.hbm_bytes

    def _each(self, change: Callable[[Floats], Floats]) -> CommWork:
        return CommWork(*(change(column) for column in self.columns))

    def __add__(self, other: CommWork) -> CommWork:
        """One task after the other."""
        return CommWork(*(one + two for one, two in zip(self.columns, other.columns, strict=True)))

    def __mul__(self, factor: npt.ArrayLike) -> CommWork:
        """So many times the task, or a share of it."""
        by = np.asarray(factor, np.float64)
        return self._each(lambda column: column * by)

    def __truediv__(self, divisor: npt.ArrayLike) -> CommWork:
        """One of so many equal pieces."""
        by = np.asarray(divisor, np.float64)
        return self._each(lambda column: column / by)

    def __getitem__(self, index: Rows | Mask | tuple[Rows, ...]) -> CommWork:
        """The tasks at some positions, or those that a mask selects."""
        return self._each(lambda column: column[index])

    def where(self, condition: Mask) -> CommWork:
        """The tasks for which the condition holds; no work for the others."""
        return self._each(lambda column: np.where(condition, column, 0.0))

    def waiting_on(self, seconds: npt.ArrayLike) -> CommWork:
        """The tasks with seconds added in which they only wait."""
        return CommWork(self.seconds + np.asarray(seconds, np.float64), *self.columns[1:])

    def on_sms(self, share: float) -> CommWork:
        """The tasks where each keeps a share of the device's SMs busy for as long as it takes."""
        seconds, scale_up_bytes, scale_out_bytes, _, hbm_bytes = self.columns
        return CommWork(seconds, scale_up_bytes, scale_out_bytes, seconds * share, hbm_bytes)
