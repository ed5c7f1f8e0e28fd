"""Words that attention moves between memory and a cache of M words: two blockings, and the better one.

Source: Saha and Ye 2024 (arXiv 2402.07443): N²d²/M words are enough and needed from M = d² on; below, blocking the two
matrix products and writing the scores is better, N²d/√M words. Dao et al. 2022 (arXiv 2205.14135), theorem 2, for the
first bound; Hong and Kung 1981 for products.
"""

from __future__ import annotations

from math import ceil, sqrt


def flash_words(n: int, d: int, cache: float) -> float:
    """Words that tiled attention moves for one head of `n` queries and keys of width `d`, counted tile by tile.

    A block of rows of queries stays in the cache with its outputs and its two statistics a row; keys and values pass
    by in blocks. A quarter of the cache each holds queries, outputs, keys and values.

    Source: Dao 2023 (arXiv 2307.08691), algorithm 1, for the order of loops.
    Valid for: caches of at least one row of each, 4 · (d + 1) words; unmasked attention.
    """
    rows = int(cache // (4 * (d + 1)))
    if rows < 1:
        return float("inf")
    rows = min(rows, n)
    passes = ceil(n / rows)
    return float(2 * n * d + n * 1 + passes * 2 * n * d)


def product_words(m: int, n: int, k: int, cache: float) -> float:
    """Words of an (m, k) by (k, n) product with square tiles that fill the cache: inputs read, the result written.

    Source: Hong and Kung 1981: 2mnk/√M at best; here a tile of the result stays and a column of each input passes by.
    Valid for: caches of at least three words.
    """
    side = int(sqrt(cache + 1.0) - 1.0)  # side² of the result and one column of side words of each input
    if side < 1:
        return float("inf")
    tiles_m, tiles_n = ceil(m / side), ceil(n / side)
    return float(tiles_n * m * k + tiles_m * k * n + m * n)


def blocked_words(n: int, d: int, cache: float) -> float:
    """Words of attention as two blocked products with the scores written between them and read twice for the softmax.

    Source: Saha and Ye 2024 (arXiv 2402.07443), section 3.
    Valid for: as `product_words`; unmasked attention.
    """
    softmax = 3.0 * n * n  # read for the maximum and the sum, read again, written
    return product_words(n, n, d, cache) + softmax + product_words(n, d, n, cache)


def attention_words(n: int, d: int, cache: float) -> float:
    """The better of both.

    Source: Saha and Ye 2024 (arXiv 2402.07443).
    Valid for: as the two.
    """
    return min(flash_words(n, d, cache), blocked_words(n, d, cache))


def bound_words(n: int, d: int, cache: float) -> float:
    """Leading term of the lower bound, without its constant: N²d²/M from M = d² on, N²d/√M below.

    Source: Saha and Ye 2024 (arXiv 2402.07443), theorems 1 and 2.
    Valid for: sequences much longer than a head is wide.
    """
    return n * n * d * d / cache if cache >= d * d else n * n * d / sqrt(cache)
