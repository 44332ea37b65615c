"""What this machine's processor can do."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path


def machine() -> str:
    """The family of instructions: ``x86_64``, ``aarch64``, or the system's name of another."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@lru_cache(maxsize=1)
def flags() -> frozenset[str]:
    """Instruction sets that the system reports; none where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
