"""Sweeps: any command over any fields of a scenario, in cells that are computed once and survive whatever dies.

A *cell* is one scenario under one command and one draw, named by the hash of all that its result depends on. Workers
compute cells, one writer stores them as Parquet shards that appear whole or not at all, and a sweep that is started
again computes the cells that no shard has. The same cells give the same rows inline, in processes and on Ray.
"""
