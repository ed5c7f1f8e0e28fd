"""Phrases about the network between nodes, as submitters and papers write them: ports of a node, rate, fabric."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.specs.cluster import ScaleOut
from windtunnel.validation.rows.parsing.loose_values import words
from windtunnel.validation.rows.parsing.pattern_tables import matches, meaning, table

_PORT_RATES = (100.0, 200.0, 400.0, 800.0)
"""Gb/s of ports that a total is thought to be made of."""
_FASTEST_PORT = 1600.0
"""Gb/s of the fastest port sold (1.6 Tb/s Ethernet, XDR adapters of two ports); what is more is a node's total."""
_SLOW_SERVER_PORT = 100.0
"""Gb/s up to which one port of plain Ethernet serves a whole node."""

_MOST_PORTS = 64
"""Ports of a node; larger figures before a name count something else."""

_COUNTS = {"one": 1, "single": 1, "two": 2, "dual": 2, "four": 4, "quad": 4, "six": 6, "eight": 8, "sixteen": 16}
_RATE = re.compile(
    r"(?:(?<![\w.])|(?<=\d[x×*]))(\d+(?:\.\d+)?)[\s-]*"
    r"(gbytes?/s|gib/s|tb(?:it)?s?/?(?:p?s(?:ec)?)|tbps|gb(?:it)?s?(?:/s(?:ec)?|ps|\b)|gig(?:abit)?\b|gbe\b|ge\b|g\b)"
)
_BEFORE = re.compile(r"(?<![\w.:/-])(\d{1,3})\s*[x×*]\s*(?=[^\d\s]|\d)")
_AFTER = re.compile(r"(?<=[\w\s)])[x×*]\s*(\d{1,2})\b(?!\s*(?:gb|tb|g\b|\d|lanes?))")
_THINGS = re.compile(
    r"(?<![\w.:/-])(\d{1,3})[\s-]+(?:[a-z/-]+\s+){0,3}?(?:nics?|ports?|hcas?|adapters?|rails?|interfaces?|dpus?|supernics?|cards?)\b"
)
_WORDS = re.compile(rf"\b({'|'.join(_COUNTS)})[\s-]+(?!port)")
_LINK_WORD = re.compile(r"(?<![\w.:/-])(\d{1,2})\s+(?:[a-z]+\s+){0,3}?(?:x|n|h|e|f|q)dr\d*\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ports:
    """What one clause says."""

    text: str
    """The clause with its names."""
    role: str
    """compute | other | "" where nothing is stated."""
    ports: int | None
    rate: float | None
    """Gb/s."""
    rate_word: float | None
    """Gb/s that the name of a link or of an adapter implies."""


def read_network(raw: object, per_node: int) -> ScaleOut | None:
    """Ports of a node and their rate, or None where a phrase does not tell them.

    Ports for computation win over those for storage and management, whatever their order; figures inside the names of
    parts count nothing; `N x R per node` are N ports of rate R.

    Args:
        raw: a phrase such as `4x HDR200 InfiniBand per node` or `Storage: 2x ..., Compute: 8x ConnectX-7 NDR 400Gb/s`.
        per_node: devices of a node.
    """
    text = _plain(raw if isinstance(raw, str) else words(raw))
    if not text or matches(table("hardware")["single_node"], text):
        return None
    best: tuple[float, int, float, str] | None = None
    clauses = _clauses(text)
    wanted = "compute" if any(c.role == "compute" for c in clauses) else ""
    for clause in clauses:
        found = _resolve(clause, per_node) if clause.role == wanted else None
        if found is not None and (best is None or found[0] * found[1] > best[0]):
            best = (found[0] * found[1], *found, clause.text)
    if best is None:
        return None
    _, nics, rate, said = best
    family = str(meaning("hardware", "network", said) or meaning("hardware", "network", text) or "infiniband")
    fields: dict[str, Any] = {"topology": "fat-tree"}
    if re.search(r"\brail", text):
        fields["topology"] = "rail-optimised"
    elif "dragonfly" in text or family == "slingshot":
        fields["topology"] = "dragonfly"
    if blocked := re.search(r"\b(\d+(?:\.\d+)?)\s*:\s*1\b", text):
        fields["oversubscription"] = max(1.0, float(blocked.group(1)))
    return ScaleOut.model_validate(
        {"nics_per_node": nics, "nic_bytes_per_s": rate * 1e9 / 8, "family": family, **fields}
    )


def _plain(text: str) -> str:
    """Lower case, with bytes and bits kept apart: they differ by case alone."""
    text = re.sub(r"(?<=\d)\s*GB(?:/s(?:ec)?|ps)\b", " gbyte/s", text)
    text = re.sub(r"(?<=\d)\s*GB\b(?!\s*(?:/|[Ee]th|IB|[Ii]nfini|[Rr]o|NIC|link|per))", " of memory", text)
    text = re.sub(r"\((?:r|tm|c)\)", "", text.lower())
    return " ".join(re.sub(r"(?<=\d)\s*[x×*]\s*(?=[a-z])", " x ", text).split())


def _clauses(text: str) -> list[_Ports]:
    """The clauses of a phrase. A clause with a rate alone belongs to the one before it that has a count alone."""
    found: list[_Ports] = []
    role = ""
    for part in re.split(r"[;,\n|]|\s\+\s|\s&\s|\b(?:and|plus|as well as)\b|\.\s", text):
        part = part.strip()
        if not part:
            continue
        stated = _role(part)
        role = stated or (role if not re.search(r"\d+\s*[x×]", part) or role == "compute" else "")
        clause = _read_clause(part, role)
        before = found[-1] if found else None
        if before is not None and before.role == clause.role and before.rate is None and clause.ports is None:
            if before.ports is not None and (clause.rate or clause.rate_word):
                found[-1] = replace(clause, text=f"{before.text} {clause.text}", ports=before.ports)
                continue
        found.append(clause)
    return found


def _role(part: str) -> str:
    rules = table("network")
    if matches(rules["compute_role"], part):
        return "compute"
    return "other" if matches(rules["other_role"], part) else ""


def _read_clause(part: str, role: str) -> _Ports:
    rules = table("network")
    if matches(rules["scale_up"], part) and not matches(rules["fabric"], part):
        return _Ports(text=part, role=role, ports=None, rate=None, rate_word=None)
    outside = " ".join(re.sub(r"\([^)]*\)", " ", part).split())
    bare = _without_names(outside)
    ports = _count(bare)
    rate = _rate(bare)
    word = next((float(port) for pattern, port in rules["link_rates"] if matches(pattern, part)), None)
    if rate is None and word is None:
        inner = _without_names(part)
        rate, ports = _rate(inner), ports if ports is not None else _count(inner)
        word = next((float(port) for pattern, port in rules["adapter_rates"] if matches(pattern, part)), None)
    return _Ports(text=part, role=role, ports=ports, rate=rate, rate_word=word)


def _without_names(text: str) -> str:
    """A clause without the names of parts, whose figures are neither counts nor rates."""
    text = re.sub(r"(\b(?:x|n|h|e|f|q)dr)\s*4x\b", r"\1", text)  # four lanes of one port
    for name in table("network")["names"]:
        text = re.sub(name, " nic ", text)
    return " ".join(text.split())


def _count(text: str) -> int | None:
    if (found := _BEFORE.search(text)) and 0 < int(found.group(1)) <= _MOST_PORTS:
        return int(found.group(1))
    text = _RATE.sub(" ", text)
    for pattern in (_THINGS, _LINK_WORD, _AFTER):
        if (found := pattern.search(text)) and 0 < int(found.group(1)) <= _MOST_PORTS:
            return int(found.group(1))
    word = _WORDS.search(text)
    return _COUNTS[word.group(1)] if word else None


def _rate(text: str) -> float | None:
    """The first rate of a clause in Gb/s."""
    found = _RATE.search(text)
    if found is None:
        return None
    unit = found.group(2)
    scale = 8.0 if unit.startswith(("gbyte", "gib")) else 1000.0 if unit.startswith("t") else 1.0
    return float(found.group(1)) * scale


def _resolve(clause: _Ports, per_node: int) -> tuple[int, float] | None:
    """Ports of a node and Gb/s of one."""
    rules = table("network")
    rate, ports, text = clause.rate, clause.ports, clause.text
    if rate is None:
        rate = clause.rate_word
    if rate is None or rate <= 0:
        return None
    each_device = matches(rules["each_device"], text)
    each_node = matches(rules["each_node"], text)
    if ports is not None:
        if each_device:
            ports *= per_node
        if rate > _FASTEST_PORT and rate / 8 <= _FASTEST_PORT and clause.rate is not None and "gbyte" in text:
            rate /= 8  # a capital letter where bits were meant
        if rate > _FASTEST_PORT or matches(rules["together"], text):
            rate /= ports
        return ports, rate
    if each_device:
        return per_node, rate
    if (each_node and clause.rate is not None) or rate > _FASTEST_PORT or matches(rules["together"], text):
        return _ports_of(rate, per_node)
    if matches(rules["plain_ethernet"], text) and rate <= _SLOW_SERVER_PORT:
        return 1, rate
    return (per_node, rate) if rate <= max(_PORT_RATES) else _ports_of(rate, per_node)


def _ports_of(total: float, per_node: int) -> tuple[int, float]:
    """Equal ports that a node's total rate is made of."""
    port = next((s for s in _PORT_RATES if total % s == 0 and total / s <= per_node), None)
    port = port or total / per_node
    return max(1, round(total / port)), port
