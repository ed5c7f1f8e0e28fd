"""The intermediate representation alone: task tables, segments, the builder."""
