"""Files that hold jitted functions, for a recorder that must not import the product before its hook is there."""

JITTED = (
    "jit.py",
    "arrays.py",
    "engine/*kernel*.py",
    "*/event_loop/*kernel.py",
    "*/event_loop/kernels/*.py",
    "clusters/event_loop/*records.py",
    "runs/event_loop/program.py",
    "splitmix64/jitted.py",
)
"""What `kernel_cache.KERNEL_SOURCES` and `COMMON_SOURCES` name, which a test checks."""
