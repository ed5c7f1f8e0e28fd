"""Dynamic backup workers: how many gradients a step waits for."""
