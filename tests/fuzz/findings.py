"""Store the findings of a campaign: files in a folder, and a command that reproduces each."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

PLACED = ("defect", "accident")  # kinds whose text begins with a position and a colon
HERE = Path(__file__).resolve().parent


class Findings:
    """Findings of one program; the first of similar ones is kept.

    Remarks are stored in the same way, but only counted.
    """

    def __init__(self, folder: Path | None, program: str) -> None:
        self.folder, self.program = folder, program
        self.seen: Counter[str] = Counter()
        self.count = 0

    def add(
        self, kind: str, text: str, name: str, model: onnx.ModelProto | bytes,
        feeds: dict[str, np.ndarray] | None = None, repeat: str = "",
    ) -> None:  # fmt: skip
        """Add a defect. ``repeat``: the arguments that reproduce it, if not the file's path; then
        each network counts separately."""
        self.count += 1
        path = self._keep(kind, text, name, model, feeds, name if repeat else "")
        if path is not None:
            command = f"python3 {HERE / self.program} {repeat or path}"
            print(f"FOUND {kind}: {text[:400]}\n  {command}", flush=True)

    def remark(self, kind: str, text: str, name: str, model: onnx.ModelProto | bytes) -> None:
        """Add something that should be looked at."""
        self._keep(kind, text, name, model, None)

    def _keep(
        self, kind: str, text: str, name: str, model: onnx.ModelProto | bytes,
        feeds: dict[str, np.ndarray] | None, alike: str = "",
    ) -> Path | None:  # fmt: skip
        """Write the network and the error, unless a similar one exists. Return its path."""
        alike = (
            alike
            or f"{kind} {stem_of(text.split(': ', maxsplit=1)[0] if kind in PLACED else text)}"
        )
        self.seen[alike] += 1
        if self.seen[alike] > 1:
            return None
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="tvmrt-findings-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{kind.replace(' ', '-').replace('/', '_')}-{name}.onnx"
        if isinstance(model, bytes):
            path = path.with_suffix(".tflite")
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        path.with_suffix(".txt").write_text(text)
        if feeds:
            np.savez(path.with_suffix(".npz"), **{f"feed:{k}": v for k, v in feeds.items()})
        return path

    def report(self, title: str, counts: Counter[str]) -> None:
        """Print the counts."""
        print(f"{title}: " + ", ".join(f"{counts[key]:,} {key}" for key in sorted(counts)))
        if self.folder is not None and self.folder.exists():
            print(f"findings: {self.count}, kept in {self.folder}")
        sys.stdout.flush()


def stem_of(text: str) -> str:
    """Remove the parts of a text that differ between networks: quoted names and numbers."""
    if re.search(r"\.py:\d+$", text):
        return text
    return re.sub(r"'[^']*'|\"[^\"]*\"|<[^>]*>|0x[0-9a-f]+|[-\d.e+]*\d|\[[^\]]*\]", "_", text)[:160]
