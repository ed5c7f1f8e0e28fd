"""Several models on shared devices and CPUs: deployments that come and go, iterations that take turns."""
