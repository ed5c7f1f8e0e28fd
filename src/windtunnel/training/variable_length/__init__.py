"""Training batches whose documents differ in length: drawn, packed, laid over ranks and priced from tables."""
