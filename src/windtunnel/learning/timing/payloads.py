"""Bytes of messages on the target's tensors, whole and layer by layer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.messages import Fragment, Message, WireFormat
from windtunnel.learning.tasks.base import Shapes
from windtunnel.learning.timing.schedule import wire_key
from windtunnel.learning.timing.target import Layer

BORDER = 1e-5
"""Share of two layers' bytes that a chunk over their border may be."""


@lru_cache(maxsize=16)
def payloads_of(layers: tuple[Layer, ...]) -> Payloads:
    """Bytes on these layers, remembered from one timing to the next."""
    return Payloads(layers)


@dataclass(slots=True)
class Payloads:
    """Bytes of one worker's encodings, remembered: layers are mostly alike, and messages come again.

    A fragment of a target is every so-and-so-th layer (of its tensors, where it has fewer layers than fragments).
    """

    layers: tuple[Layer, ...]
    _of_shapes: dict[tuple[Hashable, Shapes], float] = field(default_factory=dict)
    _of_layers: dict[tuple[Hashable, Fragment, float], Floats] = field(default_factory=dict)
    _wires: dict[Hashable, WireFormat] = field(default_factory=dict)
    """Keeps formats alive, whose identity may be a key."""

    def by_layer(self, message: Message) -> Floats:
        """Bytes of each layer, shape (layers,); zero for layers outside the message's fragment.

        They sum to the bytes of the whole: of a format that is not a sum over tensors (one scale for all of them),
        layers share the whole in proportion to what each would take alone.
        """
        key = (wire_key(message.wire), message.fragment, message.copies)
        if key not in self._of_layers:
            self._wires[wire_key(message.wire)] = message.wire
            parts = self._parts(message.fragment)
            alone = np.array([self._bytes(message.wire, shapes) for shapes in parts])
            total = float(alone.sum())
            share = self._whole(message.wire, parts, total) / total if total else 0.0
            self._of_layers[key] = alone * (message.copies * share)
        return self._of_layers[key]

    def whole(self, message: Message) -> float:
        """Bytes of one worker's encoding."""
        return float(self.by_layer(message).sum())

    def _whole(self, wire: WireFormat, parts: list[Shapes], total: float) -> float:
        """Bytes of all layers together, of which `total` is the sum.

        Formats that write a scale for every some thousand entries take long to count on a large model. So where two
        layers together have the bytes of both, but for a chunk that runs over their border, all layers do.
        """
        filled = [shapes for shapes in parts if shapes]
        if len(filled) > 2:
            one, other = filled[0], filled[1]
            apart = self._bytes(wire, one) + self._bytes(wire, other)
            if abs(self._bytes(wire, (*one, *other)) - apart) <= BORDER * apart:
                return total
        return self._bytes(wire, tuple(shape for shapes in filled for shape in shapes))

    def _bytes(self, wire: WireFormat, shapes: Shapes) -> float:
        key = (wire_key(wire), shapes)
        if key not in self._of_shapes:
            self._of_shapes[key] = wire.nbytes(shapes) if shapes else 0.0
        return self._of_shapes[key]

    def _parts(self, fragment: Fragment) -> list[Shapes]:
        """The tensors of each layer that a fragment has."""
        if fragment.of <= len(self.layers):
            mine = range(len(self.layers))[fragment.index :: fragment.of]
            return [layer.shapes if i in mine else () for i, layer in enumerate(self.layers)]
        out, at = [], 0
        for layer in self.layers:
            out.append(layer.shapes[(fragment.index - at) % fragment.of :: fragment.of])
            at += len(layer.shapes)
        return out
