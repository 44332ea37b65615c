"""Matrix of builds: runtime x target x executor x interface x optimisation level x compiler.

A build is written as its parts joined by ``+``, such as ``crt+cortex-m4+aot+c+-O2+clang``. A
filter is a list of such texts; each may name some of the parts alone, and selects all builds that
have them.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmrt.compiler import processor
from tvmrt.compiler.codegen.target import Target, get_target
from tvmrt.compiler.export import compiler_flags
from tvmrt.compiler.export.toolchain import COMMON, OPTIMISE, find_compiler

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/support"))

import boards
import compilers

LEVELS = ("-O0", "-Os", "-O2", "-O3")
COMPILERS = ("gcc", "clang")
# Targets that all processors of this architecture run, and one fixed x86-64 level with the
# processor flags that it needs.
OPEN = ("host", "native")
FORCED = {
    "v2": {"sse4_2", "popcnt"},
    "v3": {"avx2", "fma", "bmi2", "f16c"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}  # fmt: skip
BOARDS = ("cortex-m4", "cortex-m55", "riscv32")
# Variants of crt: a graph executor of packed functions, or ahead of time with either interface.
CRT_KINDS = (("graph", "packed"), ("aot", "packed"), ("aot", "c"))
# Relative frequency of each kind of build.
SHARES = {"host": 40, "crt": 25, "board": 35}

QUICK = ("-O0", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
SANITIZE = ("-g1", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class Build:
    """One way to build a network. ``sanitised``: with ASan and UBSan and separately allocated
    weights, host runtime only."""

    runtime: str = "host"
    target: str = "native"
    executor: str = "graph"
    interface: str = "packed"
    level: str = "-O0"
    compiler: str = "gcc"
    sanitised: bool = False

    def __str__(self) -> str:
        parts = "+".join(self.parts)
        return f"{parts}+sanitised" if self.sanitised else parts

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the choices on each axis."""
        return (self.runtime, self.target, self.executor, self.interface, self.level, self.compiler)

    @property
    def kind(self) -> str:
        """``host``, ``crt`` (on this machine) or ``board``."""
        return "board" if self.target in BOARDS else self.runtime

    @property
    def options(self) -> dict:
        """Return the options of tvmrt.compile."""
        forced = self.target in FORCED
        named = (
            {"target": "x86-64", "levels": (self.target,)} if forced else {"target": self.target}
        )
        return {
            **named, "runtime": self.runtime, "executor": self.executor,
            "interface_api": self.interface, "params": "file" if self.sanitised else None,
        }  # fmt: skip

    @property
    def machine(self) -> Target:
        """Return the target that the compiler generates C for."""
        options = self.options
        return get_target(options["target"], options.get("levels", ()))

    def command(self) -> list[str]:
        """Return the compiler command without the files of a network."""
        if self.kind == "board":
            return [
                *compilers.Build(self.compiler, self.level, "plain", self.target).flags(),
                "-std=c99",
            ]
        if self.sanitised:
            return [*find_compiler(), *COMMON, *SANITIZE, *self.machine.flags]
        own = [shutil.which(self.compiler) or self.compiler]
        if self.runtime == "crt":
            return [
                *own,
                "-std=c99",
                self.level,
                *compiler_flags.translate_flags(own, self.machine.flags),
            ]
        rest = QUICK[1:] if self.level == "-O0" else OPTIMISE[1:]
        return [
            *own,
            *COMMON,
            self.level,
            *compiler_flags.translate_flags(own, [*rest, *self.machine.flags]),
        ]

    def missing(self) -> str | None:
        """Return the missing tool for the build, or None."""
        if self.kind == "board":
            return compilers.Build(self.compiler, self.level, "plain", self.target).missing_tool()
        if not self.sanitised and shutil.which(self.compiler) is None:
            return self.compiler
        if self.target in FORCED:
            if processor.machine() != "x86_64" or not FORCED[self.target] <= processor.flags():
                return f"a processor with {self.target}"
        return None

    @property
    def board(self) -> boards.Board:
        """Return the emulated board of a build."""
        return boards.BOARDS[self.target]


SANITISED = (Build(sanitised=True), Build(executor="aot", sanitised=True))


def every_build() -> Iterator[Build]:
    """Return all valid combinations, including those that this machine cannot build."""
    rows = [("host", t, e, "packed") for t in (*OPEN, *FORCED) for e in ("graph", "aot")]
    rows += [("crt", t, *kind) for t in (*OPEN, *BOARDS) for kind in CRT_KINDS]
    for row, level, compiler in itertools.product(rows, LEVELS, COMPILERS):
        yield Build(*row, level, compiler)


def selected(words: Sequence[str]) -> list[Build]:
    """Return the builds that a filter selects. Raises ValueError if a word selects none."""
    found = []
    for word in words or [""]:
        parts = {part for part in word.split("+") if part}
        if parts == {"host"}:  # the runtime or the target
            chosen = [each for each in every_build() if each.runtime == "host"]
        else:
            chosen = [each for each in every_build() if parts <= set(each.parts)]
            exact = [each for each in chosen if str(each) == word]
            chosen = exact or chosen
        if not chosen:
            raise ValueError(f"no build has {word}; an example is {next(every_build())}")
        found += chosen
    return list(dict.fromkeys(found))


def usable(builds: Iterable[Build]) -> tuple[list[Build], list[str]]:
    """Return the builds that this machine can make, and one line for each missing tool."""
    able, lacking = [], {}
    for build in builds:
        missing = build.missing()
        if missing is None:
            able.append(build)
        else:
            lacking.setdefault(missing, set()).add(build.target)
    return able, [f"skipped: no {tool} for {', '.join(sorted(targets))}"
                  for tool, targets in sorted(lacking.items())]  # fmt: skip


def drawn(source: random.Random, builds: Sequence[Build], count: int) -> list[Build]:
    """Draw some builds of different kinds if possible; all targets of a kind have the same
    probability."""
    kinds = sorted({each.kind for each in builds})
    found = []
    while len(found) < min(count, len(builds)):
        open_kinds = [k for k in kinds if k not in {each.kind for each in found}] or kinds
        (kind,) = source.choices(open_kinds, [SHARES[each] for each in open_kinds])
        own = [each for each in builds if each.kind == kind and each not in found]
        if not own:
            kinds.remove(kind)
            continue
        target = source.choice(sorted({each.target for each in own}))
        found.append(source.choice([each for each in own if each.target == target]))
    return found


def environment() -> dict[str, str]:
    """Return the environment of C compilers: without a cache, since random networks do not
    repeat."""
    return {**os.environ, "CCACHE_DISABLE": "1"}
