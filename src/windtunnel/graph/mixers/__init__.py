"""Sub-blocks of the mixers and networks that models compose: one file a family, dimensions in, `SubBlock` out.

A reader of configurations calls them; `graph.composed` turns the result into operators.
"""
