"""Who sends to whom in a round of pairs or among neighbours."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.learning.messages import Message
from windtunnel.learning.randomness import Draws


def partners_of(message: Message, who: Ints, seed: int) -> list[tuple[Ints, Ints]]:
    """(senders, receivers) of an exchange, workers by number, each sender at most once in a list.

    Args:
        message: `pairs`: its partners, or pairs drawn for its step; of an odd number one worker stays alone.
            `neighbours`: its partners, or the nearest on a ring, as many on each side as its degree says.
        who: Workers that take part, ascending.
        seed: Of drawn pairs.
    """
    if message.partners:
        deepest = max(len(of) for of in message.partners)
        lists = [[(i, of[k]) for i, of in enumerate(message.partners) if k < len(of)] for k in range(deepest)]
        return [(np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])) for pairs in lists]
    if message.kind == "pairs":
        order = who[Draws(seed).order("pairs", message.after_step, len(who))]
        half = len(order) // 2
        first, second = order[:half], order[half : 2 * half]
        return [(np.concatenate([first, second]), np.concatenate([second, first]))]
    degree = min(round(message.degree), len(who) - 1)
    hops = [hop for k in range(1, (degree + 1) // 2 + 1) for hop in (k, -k)][:degree]
    return [(who, np.roll(who, -hop)) for hop in hops]
