"""Classes of time and terms of a chain, found by what a user calls them."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from windtunnel.errors import BadInput

if TYPE_CHECKING:
    from windtunnel.training.explain.time_chain import Chain, Term

NO_CHAIN = "--class and --term need the scenario: this result was made by another version"


def find_class(chain: Chain, name: str) -> str:
    """The class of time that a name stands for.

    Raises:
        BadInput: none; the nearest is named.
    """
    wanted = name.strip().lower().replace("_", " ").replace("-", " ")
    known = {key.lower(): key for key in chain.exposed}
    for given in (wanted, f"exposed {wanted}"):
        if given in known:
            return known[given]
    nearest = difflib.get_close_matches(wanted, [*known, *(k.removeprefix("exposed ") for k in known)], 1, 0.5)
    hint = f" (did you mean {nearest[0]}?)" if nearest else ""
    raise BadInput(f"--class = {name}: must be one of {', '.join(chain.exposed)}{hint}")


def find_terms(chain: Chain, name: str, time_class: str | None = None) -> list[Term]:
    """Terms whose name, class or coefficients hold a text.

    Raises:
        BadInput: none does.
    """
    wanted = name.strip().lower()
    inside = None if time_class is None else find_class(chain, time_class)
    found = [
        t
        for t in chain.terms
        if wanted
        and (inside is None or t.time_class == inside)
        and (wanted in t.name.lower() or any(wanted in c.name.lower() for c in t.coefficients))
    ]
    if not found:
        names = dict.fromkeys(t.name for t in chain.terms)
        raise BadInput(f"--term = {name}: must be part of one of {', '.join(names)}")
    return found
