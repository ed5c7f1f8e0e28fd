"""How caches get from prefill pools to decode pools. What is absent follows the engine."""

from __future__ import annotations

from typing import Literal

from windtunnel.specs.base import Named, Seconds, Spec


class TransferSpec(Spec):
    """`serving.transfer`: read where pools have the roles prefill and decode."""

    mode: Literal["whole", "layers", "chunks"] | None = None
    """When a prompt's cache leaves: at its end; layer by layer, or chunk by chunk, while it is computed."""
    reserve_first: bool | None = None
    """Whether the decode instance is chosen, and keeps blocks, before the prompt begins. Layers and chunks need it."""
    first_token: Literal["prefill", "transfer", "decode"] | None = None
    """Who streams the first token, and when: the prefill instance at the prompt's end; the decode instance once it has
    the cache; the decode instance after a step of its own, in which it computes the prompt's last token again."""
    pieces: Literal["contiguous", "copied", "packed"] = "contiguous"
    """How blocks of the cache travel: as if they lay in a row; by a copy of its own for each block, layer, and keys or
    values; or packed by a kernel into a buffer, sent, and unpacked."""
    control_s: Seconds | None = None
    """Seconds from one instance's message until the other acts on it: HTTP, tokeniser, proxy."""
    router: Named | None = None
    """Which decode instance answers: a rule's id. Absent: `serving.router` where that is a rule of the jitted loop."""
