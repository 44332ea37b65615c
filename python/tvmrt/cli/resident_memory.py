"""Memory that loading and running a library adds to this process."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class ResidentMemory:
    """Resident memory of a process.

    ``own_bytes``: Private memory of this process. ``file_bytes``: File-backed memory that processes
    share.
    """

    own_bytes: int
    file_bytes: int

    def since(self, before: ResidentMemory) -> ResidentMemory:
        """Return the growth since an earlier measurement."""
        own = max(0, self.own_bytes - before.own_bytes)
        return ResidentMemory(own, max(0, self.file_bytes - before.file_bytes))


def resident() -> ResidentMemory | None:
    """Measure the memory of this process; None if the system does not report it."""
    gc.collect()
    try:
        lines = STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    fields = {line.partition(":")[0]: line.split() for line in lines}
    if not {"RssAnon", "RssFile"} <= set(fields):
        return None
    own, file = (int(fields[key][1]) * 1024 for key in ("RssAnon", "RssFile"))
    return ResidentMemory(own, file)
