"""Features of this machine's processor."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path


def machine() -> str:
    """Return the instruction set: ``x86_64``, ``aarch64``, or the system's name of another."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@lru_cache(maxsize=1)
def name() -> str:
    """Return the kind of processor, as far as times depend on it: ``AuthenticAMD 25 17`` (vendor,
    family, model), ``0x41 0xd0c`` (implementer, part); the system's name of the machine if these
    are not known."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    members: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        members.setdefault(key.strip(), value.strip())
    keys = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
    parts = [members[key] for key in keys if members.get(key)]
    return " ".join(parts) or platform.processor() or machine()


@lru_cache(maxsize=1)
def flags() -> frozenset[str]:
    """Return the instruction sets that the system reports; none if it does not report them."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
