"""Locks of a process."""

from __future__ import annotations

import os
import threading


def lock_of_process() -> threading.RLock:
    """Return a lock for the life of the process, for what its modules share. fork() waits until no
    other thread holds it: a child would wait for that thread forever."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
