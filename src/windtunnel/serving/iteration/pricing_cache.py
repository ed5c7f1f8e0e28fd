"""What is kept from run to run of one search: priced iterations, and surfaces of what techniques save.

Instances that are the same price their iterations once, and pairs of a technique its knots.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from windtunnel.serving.iteration.iteration_model import IterationModel
    from windtunnel.serving.iteration.linear_layers import Layers
    from windtunnel.serving.iteration.overlap_savings import Overlap
    from windtunnel.techniques.base import Applied

T = TypeVar("T")
_KEPT: ContextVar[dict[bytes, Any] | None] = ContextVar("surfaces", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """Deployments prepared inside share what instances and acting techniques that are the same have in common."""
    token = _KEPT.set({} if (kept := _KEPT.get()) is None else kept)
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


def once(make: Callable[[], T], of: tuple[Any, ...]) -> T:
    """What `make` gives, made before where everything that it depends on was the same.

    Args:
        make: without side effects.
        of: what it depends on; the first says what it is.
    """
    kept = _KEPT.get()
    if kept is None:
        return make()
    found = pickle.dumps(of)
    if found not in kept:
        kept[found] = make()
    made: T = kept[found]
    return made


def known(found: bytes) -> Overlap | None:
    """A surface made before."""
    return (_KEPT.get() or {}).get(found) if found else None


def keep(found: bytes, surface: Overlap) -> Overlap:
    """The surface, remembered where surfaces are shared."""
    kept = _KEPT.get()
    if found and kept is not None:
        kept[found] = surface
    return surface
