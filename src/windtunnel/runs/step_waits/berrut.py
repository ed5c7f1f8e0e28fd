"""Berrut's rational interpolation: data encoded into shares, results of any function decoded from those that return."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats


def chebyshev(count: int) -> Floats:
    """Chebyshev points of the first kind, shape (count,), falling."""
    return np.asarray(np.cos((2 * np.arange(count) + 1) * np.pi / (2 * count)))


def interpolate(nodes: Floats, values: Floats, at: Floats, signs: Floats | None = None) -> Floats:
    """Berrut's interpolant through (nodes, values), at other points.

    Args:
        nodes: Shape (n,), monotone.
        values: Shape (n, …).
        at: Shape (m,).
        signs: Alternating weights of the nodes; absent: by their order. Decoding from some of the returns numbers them
            anew, so that there are no poles between them.

    Returns:
        Shape (m, …).

    Source: Berrut 1988; Jahani-Nezhad and Maddah-Ali 2020 (arXiv 2009.08327), equations 4 and 6. Valid for: any
    function; exact at the nodes.
    """
    weights = (-1.0) ** np.arange(len(nodes)) if signs is None else signs
    out = np.empty((len(at), *values.shape[1:]))
    for i, z in enumerate(at):
        gap = z - nodes
        hit = np.flatnonzero(np.abs(gap) < 1e-14)
        if len(hit):
            out[i] = values[hit[0]]
            continue
        share = weights / gap
        out[i] = np.tensordot(share / share.sum(), values, axes=1)
    return out


def encode(data: Floats, shares: int) -> Floats:
    """`shares` combinations of K data blocks, shape (shares, …), at Chebyshev points of the first kind.

    Points that coincide with those of the data (K divides `shares` oddly) are the blocks themselves.
    """
    return interpolate(chebyshev(len(data)), data, chebyshev(shares))


def decode(results: Floats, returned: Floats, shares: int, blocks: int) -> Floats:
    """Approximate results of all blocks from those of the returned shares.

    Args:
        results: Of the function on the returned shares, shape (returned, …).
        returned: Which shares they are, ascending whole numbers.
        shares: Sent out.
        blocks: K.
    """
    return interpolate(chebyshev(shares)[returned.astype(int)], results, chebyshev(blocks))


def wrong_answers(results: Floats, returned: Floats, shares: int, blocks: int, wrong: int, looks: int = 16) -> Floats:
    """Positions among the returned results of those that are corrupted, ascending, shape (wrong,).

    Shares are ratios of polynomials with one known denominator. Times that, right answers of a linear function lie on
    a polynomial of degree K − 1, and times a polynomial whose roots are the wrong answers' points all answers do: it
    follows from linear equations (Berlekamp and Welch). Exact for linear functions where answers are K + 2·wrong or
    more; for others the wrong ones have to stand out from the error of interpolation. Where fewer are wrong, right ones
    make up the number.

    Args:
        results: Of the function on the returned shares, shape (returned, …).
        returned: Which shares they are, ascending whole numbers.
        shares: Sent out.
        blocks: K.
        wrong: How many to find.
        looks: Fixed random combinations of the entries that the equations are made of.

    Source: Welch and Berlekamp 1986 over real numbers; K + 2e is the bound of the DCT codes of Borah and Harshan 2025
    (arXiv 2507.01330).

    Raises:
        ValueError: fewer answers than K + 2·wrong.
    """
    if len(returned) < blocks + 2 * wrong:
        raise ValueError(f"{len(returned)} answers are fewer than {blocks} blocks + 2 · {wrong} wrong ones")
    if not wrong:
        return np.zeros(0)
    at, nodes = chebyshev(shares)[returned.astype(int)], chebyshev(blocks)
    gaps = at[:, None] - nodes[None, :]
    products = np.stack([np.delete(gaps, j, axis=1).prod(axis=1) for j in range(blocks)], axis=1)
    denominator = products @ (-1.0) ** np.arange(blocks)
    flat = results.reshape(len(results), -1)
    mixed = flat @ np.random.default_rng(0).standard_normal((flat.shape[1], looks)) / np.sqrt(flat.shape[1])
    basis = np.polynomial.chebyshev.chebvander(at, blocks + wrong - 1)
    free = np.linalg.qr(basis, mode="complete")[0][:, blocks + wrong :].T  # what no such polynomial explains
    locator = np.polynomial.chebyshev.chebvander(at, wrong)
    scaled = (mixed * denominator[:, None]).T
    scaled = scaled / np.maximum(np.abs(scaled).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    equations = np.concatenate([free @ (row[:, None] * locator) for row in scaled])
    found = np.linalg.svd(equations)[2][-1]
    return np.sort(np.argsort(np.abs(locator @ found), kind="stable")[:wrong]).astype(np.float64)
