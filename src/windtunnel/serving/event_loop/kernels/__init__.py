"""The jitted request loop, a part a file; `serve.serve` runs it. Importing any of them imports Numba."""
