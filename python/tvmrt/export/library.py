"""A compiled network: its sources and plan, and the artefacts that can be made of them."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tvmrt.codegen.options import Options, Sources
from tvmrt.codegen.target import Target
from tvmrt.ir.custom import shown_op
from tvmrt.ir.program import ARENA, MemoryPool, Program
from tvmrt.partition import BorderRow, NodeRow, Partition, RegionRow, border_rows
from tvmrt.planner.lifetime import lifetimes

from . import blob
from .atomic import filling, replacing
from .dump import print_program
from .toolchain import build_library

LARGEST_C_ARRAY = 1 << 16  # bytes; compilers are slow with longer ones


@dataclass
class TensorSummary:
    """One input or output of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass
class OperatorSummary:
    """One generated function: the network's nodes in it, its work, its result.

    ``live_bytes`` of the pools are in use while it runs, ``scratch_bytes`` of them by itself;
    ``weights_bytes`` are the weights that it reads.
    """

    name: str
    op: str
    onnx_nodes: list[str]
    macs: int
    out_shape: tuple[int, ...]
    symbol: str = ""
    live_bytes: int = 0
    scratch_bytes: int = 0
    weights_bytes: int = 0


@dataclass
class PlanRow:
    """One buffer's place in a memory pool, in bytes, and the steps of its life.

    An input in a pool lives from -1 on, an output to one after the last step.
    """

    buffer: str
    offset: int
    size: int
    first: int
    last: int
    pool: str = "workspace"


@dataclass
class PoolSummary:
    """One memory: what the network takes of it, what it has, and what no plan can go below.

    ``kept_bytes`` of it are weights that are copied there.
    """

    name: str
    used_bytes: int
    capacity_bytes: int | None
    lower_bound_bytes: int
    kept_bytes: int
    lent: bool
    section: str | None


@dataclass
class Summary:
    """What a network costs, known before the C compiler runs. Sizes in bytes."""

    arena_bytes: int
    lower_bound_bytes: int
    weights_bytes: int
    scratch_bytes: int
    inputs: list[TensorSummary]
    outputs: list[TensorSummary]
    operators: list[OperatorSummary]
    plan: list[PlanRow]
    seconds: dict[str, float] = field(default_factory=dict)
    nodes: list[NodeRow] = field(default_factory=list)
    regions: list[RegionRow] = field(default_factory=list)
    borders: list[BorderRow] = field(default_factory=list)
    pools: list[PoolSummary] = field(default_factory=list)


class CompiledLibrary:
    """The result of ``tvmrt.compile``."""

    def __init__(
        self,
        program: Program,
        sources: Sources,
        options: Options,
        target: Target,
        json: str | None,
        seconds: dict[str, float],
        cc: str | None,
        partition: Partition | None = None,
    ) -> None:
        self.program = program
        self.sources = sources
        self.options = options
        self.target = target
        self._json = json
        self._seconds = seconds
        self._cc = cc
        self.partition = partition

    @property
    def module_name(self) -> str:
        return self.options.module_name

    def get_graph_json(self) -> str:
        """The graph JSON. Raises ValueError for a network compiled for the AOT executor."""
        if self._json is None:
            raise ValueError("a network compiled for the AOT executor has no graph JSON")
        return self._json

    @property
    def has_graph_json(self) -> bool:
        return self._json is not None

    def print_program(self) -> str:
        """The steps and their places in memory as text."""
        return print_program(self.program)

    def get_params(self) -> dict[str, np.ndarray]:
        """Weights that the library does not hold itself; empty unless params are in a file."""
        if self.options.params != "file":
            return {}
        return {b.name: b.data for b in self.sources.weight_buffers}

    @property
    def summary(self) -> Summary:
        program = self.program
        lives = lifetimes(program)
        return Summary(
            program.arena_bytes,
            program.lower_bound_bytes,
            self._weights_bytes(),
            max((s.scratch_bytes for s in program.steps), default=0),
            [_tensor(n, t) for n, t in zip(program.input_names, program.input_types)],
            [_tensor(n, t) for n, t in zip(program.output_names, program.output_types)],
            [self._operator(i, lives) for i in range(len(program.steps))],
            [
                PlanRow(b.name, b.address, b.nbytes, *lives[b], program.pools[b.pool].name)
                for b in program.arena_buffers()
                if b.kind == ARENA
            ],
            dict(self._seconds),
            [] if self.partition is None else self.partition.node_rows(),
            [] if self.partition is None else self.partition.region_rows(),
            border_rows(program),
            [summary_of_pool(pool) for pool in program.pools],
        )

    def _weights_bytes(self) -> int:
        """Weights as they lie in the artefact, gaps included: in one block, or as arrays."""
        if not self.options.firmware:
            return len(self.sources.weights)
        return sum(-(-b.nbytes // 16) * 16 for b in self.sources.weight_buffers)

    def _operator(self, index: int, lives) -> OperatorSummary:
        step, function = self.program.steps[index], self.sources.functions[index]
        weights = {p.buffer for p in function.parameters if p.buffer.data is not None}
        return OperatorSummary(
            step.name,
            shown_op(step.group.root),
            list(step.sources),
            step.lowering.macs(),
            step.writes[0].shape,
            function.symbol,
            live_bytes(lives, index),
            step.scratch_bytes,
            sum(b.nbytes for b in weights),
        )

    def export(self, path: str | os.PathLike) -> None:
        """Write by suffix: ``.so`` a library, ``.tar`` an archive, anything else a folder."""
        suffix = Path(path).suffix
        if suffix in (".so", ".dylib", ".dll"):
            self.export_library(path)
        elif suffix == ".tar":
            self.export_model_library_format(path)
        else:
            self.export_sources(path)

    def export_library(self, path: str | os.PathLike) -> None:
        """Compile and link to a shared library in the classic layout; not for firmware.

        Raises CompileError when there is no C compiler or it fails, OSError when the file
        cannot be written; what stood at ``path`` is then untouched.
        """
        if self.options.firmware:
            raise ValueError(
                "a network for the crt runtime is linked into a program; export to a folder or .tar"
            )
        if not self.target.hosted:
            raise ValueError(
                f"target {self.target.name} has no shared libraries; export to a folder or .tar"
            )
        begin = time.perf_counter()
        with replacing(path) as aside, tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            sources = self.write_sources(Path(folder))
            more = self.sources.flags, self.sources.link_flags
            build_library(sources, aside.resolve(), self.target, self._cc, *more)
        self._seconds["compile"] = time.perf_counter() - begin
        if self.options.params == "file":
            with replacing(Path(path).with_suffix(".params")) as aside:
                aside.write_bytes(blob.params(self.get_params()))

    def export_sources(self, path: str | os.PathLike) -> None:
        """Write the C files into a folder, made if it is not there; its other files stay."""
        with filling(path) as folder:
            self.write_sources(folder)

    def export_model_library_format(self, path: str | os.PathLike) -> None:
        """Write the archive of the Model Library Format."""
        from .model_library_format import write_archive

        with replacing(path) as aside:
            write_archive([self], aside)

    def blob(self) -> bytes:
        """The bytes of ``__tvm_dev_mblob``."""
        imports = self.sources.modules
        if self._json is not None:
            return blob.graph_library(self._json, self.module_name, imports)
        return blob.aot_library(self.module_name, imports)

    def write_sources(self, folder: Path) -> list[Path]:
        """Write all sources of the library into a folder; the paths are those to compile."""
        written = []
        for name, text in self.sources.files.items():
            (folder / name).write_text(text)
            if name.endswith(".c"):
                written.append(folder / name)
        if self.options.firmware:
            return written
        prefix = self.sources.prefix
        tree = self.blob()
        if len(tree) > LARGEST_C_ARRAY:
            written.append(_include(folder, "__tvm_dev_mblob", f"{prefix}_devc", tree, True))
        else:
            devc = folder / f"{prefix}_devc.c"
            devc.write_text(blob.blob_source(tree))
            written.append(devc)
        if self.options.params == "embed" and self.sources.weights:
            name = f"{prefix}_weights"
            written.append(_include(folder, name, name, self.sources.weights))
        return written


def _include(folder: Path, symbol: str, stem: str, data: bytes, exported: bool = False) -> Path:
    """Bytes as a file, and the assembler that includes it, whose path it gives."""
    (folder / f"{stem}.bin").write_bytes(data)
    assembler = folder / f"{stem}.S"
    assembler.write_text(blob.included_bytes(symbol, f"{stem}.bin", len(data), exported))
    return assembler


def summary_of_pool(pool: MemoryPool) -> PoolSummary:
    """What is told of a pool."""
    return PoolSummary(
        pool.name, pool.used_bytes, pool.capacity, pool.lower_bound_bytes, pool.kept_bytes,
        pool.lent, pool.section,
    )  # fmt: skip


def live_bytes(lives, step: int) -> int:
    """Bytes of the pools that hold something at a step; ``lives`` as lifetimes() gives them."""
    alive = [b for b, (first, last) in lives.items() if first <= step <= last]
    spans = sorted((b.pool, b.address, b.address + b.nbytes) for b in alive)
    total, reached = 0, (-1, 0)  # the pool, and up to where its bytes are counted
    for pool, begin, stop in spans:
        counted = max(begin, reached[1]) if pool == reached[0] else begin
        total += max(0, stop - counted)
        reached = (pool, max(counted, stop))
    return total


def _tensor(name, type) -> TensorSummary:
    return TensorSummary(name, type.shape, str(type.dtype), type.nbytes)
