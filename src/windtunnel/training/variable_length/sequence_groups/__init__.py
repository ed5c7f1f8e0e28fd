"""Ways to lay documents over ranks, one a file (`plan.sequence_groups`)."""
