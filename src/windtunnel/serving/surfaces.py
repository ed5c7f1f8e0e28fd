"""Surfaces of what techniques save, kept from run to run of one search: pairs of a technique price its knots once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windtunnel.serving.iteration import IterationModel
    from windtunnel.serving.layers import Layers
    from windtunnel.serving.overlap import Overlap
    from windtunnel.techniques.base import Applied

_KEPT: ContextVar[dict[bytes, Overlap] | None] = ContextVar("surfaces", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """Deployments prepared inside share surfaces where instances and acting techniques are the same."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def key(layers: Layers, iteration: IterationModel, chosen: Sequence[Applied], rest: tuple[Any, ...]) -> bytes:
    """Everything that a surface depends on; empty where nothing is shared.

    Args:
        layers: of the instance.
        iteration: its model without techniques.
        chosen: techniques; those that leave iterations alone do not count.
        rest: bounds and switches.
    """
    if _KEPT.get() is None:
        return b""
    acting = [
        (x.technique.id, sorted(x.knobs.items()))
        for x in chosen
        if x.technique.serving and x.technique.serving.acts_on_iterations
    ]
    own = (layers.model, layers.cluster, layers.shape, layers.c, layers.skew, layers.kinds)
    return pickle.dumps((own, iteration, acting, rest))


def known(found: bytes) -> Overlap | None:
    """A surface made before."""
    return (_KEPT.get() or {}).get(found) if found else None


def keep(found: bytes, surface: Overlap) -> Overlap:
    """The surface, remembered where surfaces are shared."""
    kept = _KEPT.get()
    if found and kept is not None:
        kept[found] = surface
    return surface
