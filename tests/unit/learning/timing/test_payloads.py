"""Bytes of messages on the target's layers sum to those of the whole encoding."""

from __future__ import annotations

import pytest

from windtunnel.learning.compressors import COMPRESSORS
from windtunnel.learning.messages import Fragment, Message, Plain
from windtunnel.learning.timing.payloads import Payloads
from windtunnel.learning.timing.target import stated_layers


@pytest.mark.parametrize("id", sorted(COMPRESSORS))
@pytest.mark.parametrize("layers", [1, 2, 3, 7])
def test_layers_sum_to_the_whole(id: str, layers: int) -> None:
    kind = COMPRESSORS.get(id)
    wire = kind.build({name: knob.default for name, knob in kind.knobs.items()})
    target = stated_layers(3_456_789, layers)
    message = Message(kind="all_gather", wire=wire, after_step=0, needed_by=1, copies=2.0)
    whole = 2.0 * wire.nbytes(tuple(shape for layer in target for shape in layer.shapes))
    found = Payloads(target)
    assert found.whole(message) == pytest.approx(whole, rel=1e-4)
    assert (found.by_layer(message) > 0).all()


def test_fragments_are_layers_in_turn_or_tensors_where_layers_are_few() -> None:
    target = stated_layers(1200, 3)  # four matrices and a rest each
    message = Message(kind="all_reduce", wire=Plain(8), fragment=Fragment(1, 3), after_step=0, needed_by=1)
    assert list(Payloads(target).by_layer(message)) == [0.0, 400.0, 0.0]
    parts = [
        Payloads(target).by_layer(
            Message(kind="all_reduce", wire=Plain(8), fragment=Fragment(i, 5), after_step=0, needed_by=1)
        )
        for i in range(5)
    ]
    assert sum(parts).sum() == 1200
