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
_PRICES: ContextVar[dict[bytes, Any] | None] = ContextVar("surfaces", default=None)


@contextmanager
def reuse_prices() -> Iterator[None]:
    """Deployments prepared inside share what instances and acting techniques that are the same have in common."""
    token = _PRICES.set({} if (kept := _PRICES.get()) is None else kept)
    try:
        yield
    finally:
        _PRICES.reset(token)


def surface_key(layers: Layers, iteration: IterationModel, chosen: Sequence[Applied], rest: tuple[Any, ...]) -> bytes:
    """Everything that a surface depends on; empty where nothing is shared.

    Args:
        layers: of the instance.
        iteration: its model without techniques.
        chosen: techniques; those that leave iterations alone do not count.
        rest: bounds and switches.
    """
    if _PRICES.get() is None:
        return b""
    acting = [
        (x.technique.id, sorted(x.knobs.items()))
        for x in chosen
        if x.technique.serving and x.technique.serving.acts_on_iterations
    ]
    own = (layers.model, layers.cluster, layers.shape, layers.c, layers.skew, layers.kinds)
    return pickle.dumps((own, iteration, acting, rest))


def price_once(make: Callable[[], T], of: tuple[Any, ...]) -> T:
    """What `make` gives, made before where everything that it depends on was the same.

    Args:
        make: without side effects.
        of: what it depends on; the first says what it is.
    """
    kept = _PRICES.get()
    if kept is None:
        return make()
    found = pickle.dumps(of)
    if found not in kept:
        kept[found] = make()
    made: T = kept[found]
    return made


def find_surface(key: bytes) -> Overlap | None:
    """A surface made before."""
    return (_PRICES.get() or {}).get(key) if key else None


def keep_surface(key: bytes, surface: Overlap) -> Overlap:
    """The surface, remembered where surfaces are shared."""
    kept = _PRICES.get()
    if key and kept is not None:
        kept[key] = surface
    return surface
