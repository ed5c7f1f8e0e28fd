"""A job of the server: a command of `windtunnel` that ends with the server, also where that is killed."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def end_with(handle: int) -> None:
    """End this process and those that it has started when the other end of a pipe closes.

    Args:
        handle: end of the pipe that this process reads; the server holds the other one and writes nothing.
    """

    def wait() -> None:
        os.read(handle, 1)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with(int(sys.argv.pop(1)))
    runpy.run_module("windtunnel", run_name="__main__", alter_sys=True)  # the command line lies above this package
