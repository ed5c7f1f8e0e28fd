"""POLCA: more servers on one feed than it is provisioned for."""
