"""Settings shared by all tests."""

from __future__ import annotations

import atexit
import os
import signal

from hypothesis import settings

from windtunnel.kernel_cache import always_compiled

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

_compiled = always_compiled()
_compiled.__enter__()
atexit.register(_compiled.__exit__, None, None, None)
"""Kernels run compiled in every test, so that a comparison with a plain twin compares two things."""

os.environ.pop("COLUMNS", None)
"""Parallel workers inherit a terminal's width; piped output is as wide as without one."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
"""Shells start background jobs with SIGINT ignored, which children inherit: tests that interrupt one would hang."""
