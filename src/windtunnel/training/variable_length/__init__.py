"""Training batches of unlike documents: drawn, packed, laid over ranks, and priced by tables."""
