"""What differs between two sets of values: fields of scenarios, seconds or bytes by name."""

from __future__ import annotations

from typing import Any


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields under dotted names."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict) and value:
            out |= flat(value, f"{prefix}{key}.")
        else:
            out[prefix + key] = value
    return out


def changed(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Fields that differ → (a, b)."""
    names = [*a, *(name for name in b if name not in a)]
    return {name: (a.get(name), b.get(name)) for name in names if _plain(a.get(name)) != _plain(b.get(name))}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def deltas(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    """Difference `b` − `a` of every entry that differs, largest first; the values sum to the difference of the sums."""
    out = {name: b.get(name, 0.0) - a.get(name, 0.0) for name in [*a, *(name for name in b if name not in a)]}
    return {k: v for k, v in sorted(out.items(), key=lambda item: -abs(item[1])) if v}
