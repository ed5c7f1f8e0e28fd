"""What data parallelism communicates: seconds and bytes of gradient reductions and parameter gathers."""
