"""Groups of releases with equal artefacts, and their differences."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Release:
    """Releases 0.`first` to 0.`last`, which write the same artefacts."""

    first: int
    last: int

    @property
    def name(self) -> str:
        return f"0.{self.first}" if self.first == self.last else f"0.{self.first}-0.{self.last}"

    @property
    def define(self) -> str:
        """Return the macro that the C files of this folder are compiled with."""
        return f"MINOR={self.first}"

    @property
    def const_loader(self) -> str:
        """Return the kind of the module that holds constants of accelerators."""
        return "metadata" if self.first == 8 else "const_loader"

    @property
    def archive_version(self) -> int:
        """Return the version of the Model Library Format."""
        return 5 if self.first == 8 else 7

    @property
    def aot_main(self) -> str:
        """Return the suffix of the main function of code compiled ahead of time."""
        return "run_model" if self.first == 8 else "__tvm_main__"

    def output_key(self, node: str, index: int) -> str:
        """Return the key of a graph output in set_output_zero_copy()."""
        return node if self.first < 10 else f"{node}:{index}"


RELEASES = [
    Release(8, 8),
    Release(9, 9),
    Release(10, 10),
    Release(11, 11),
    Release(12, 13),
    Release(14, 15),
    Release(16, 17),
    Release(18, 18),
]


def each_release(since: int = 8, until: int = 18) -> pytest.MarkDecorator:
    """Run a test for every release between two releases."""
    chosen = [release for release in RELEASES if since <= release.first <= until]
    return pytest.mark.parametrize("release", chosen, ids=lambda release: release.name)
