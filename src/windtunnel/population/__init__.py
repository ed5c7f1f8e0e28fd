"""How often attempts at the problems of a task are right, and what strategies make of it. Graded, never simulated."""
