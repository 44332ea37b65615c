"""How much memory loading and running a library takes of this process."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Resident:
    """Bytes in memory: of this process alone, and of files, whose pages all processes share."""

    own_bytes: int
    file_bytes: int

    def since(self, before: Resident) -> Resident:
        """What has come since then."""
        own = max(0, self.own_bytes - before.own_bytes)
        return Resident(own, max(0, self.file_bytes - before.file_bytes))


def resident() -> Resident | None:
    """What this process has now; None where the system does not tell."""
    gc.collect()
    try:
        lines = STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    told = {line.partition(":")[0]: line.split() for line in lines}
    if not {"RssAnon", "RssFile"} <= set(told):
        return None
    own, file = (int(told[key][1]) * 1024 for key in ("RssAnon", "RssFile"))
    return Resident(own, file)
