"""The compiler from end to end: a network to a library that can be exported.

``frontend -> ir -> transform -> partition -> codegen (program) -> planner -> codegen (C) ->
export``; each stage is a function of its own, this file only calls them in order.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tvmrt import choices
from tvmrt.calibration import GraphRunner
from tvmrt.codegen import c_source, pool_options, recovery, row_chains
from tvmrt.codegen.c.naming import check_module_name
from tvmrt.codegen.device_places import defer_regions, place_on_devices
from tvmrt.codegen.entries import graph as graph_file
from tvmrt.codegen.entries import tvm_ffi
from tvmrt.codegen.families import Family, find_family
from tvmrt.codegen.firmware.state import refuse_sharing
from tvmrt.codegen.image_memory import Need, Planned, plan_memory
from tvmrt.codegen.options import Options, Provenance, SharedImage, prefix_of
from tvmrt.codegen.slab_chains import with_slabs
from tvmrt.codegen.target import CROSS, Target, get_target, own_family, with_matrices
from tvmrt.custom import GraphBuilder, gather
from tvmrt.devices import Context, Device, resolve
from tvmrt.error import Remark, UnsupportedError
from tvmrt.export.dump import Dump
from tvmrt.export.firmware_graph import print_files
from tvmrt.export.image import CompiledImage, check_names, live_groups
from tvmrt.export.library import CompiledLibrary
from tvmrt.frontend import onnx, tflite
from tvmrt.ir import CSource, Graph, Node, limits
from tvmrt.ir.extent import counts_in
from tvmrt.ir.narrow import NarrowRow
from tvmrt.ir.program import MemoryPool, Program
from tvmrt.ir.reduced import ReducedRow
from tvmrt.ir.stowed import drop_pages
from tvmrt.ir.winograd import WinogradRow
from tvmrt.partition import LayerErrors, Partition, Reducer, partition
from tvmrt.provenance import provenance_of
from tvmrt.request import Request, documented, make
from tvmrt.transform import (
    expand_composed,
    infer_layouts,
    join_siblings,
    narrow_weights,
    optimize,
    reduce_products,
    squares_within,
    to_fixed_point,
    to_winograd,
)
from tvmrt.transform.fixed_point import PRODUCTS
from tvmrt.tuning.guides import guided

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvmrt.option_types import CompileOptions

Progress = Callable[[str, int, int], None]
STAGES = 7  # the last is the C compiler's, where a library is made


@documented
def compile(
    model: Any, request: Request | None = None, **options: Unpack[CompileOptions]
) -> CompiledLibrary:
    """Compile an ONNX or TensorFlow Lite network.

    Parameters
    ----------
    model
        Path of an ``.onnx`` or ``.tflite`` file, an ``onnx.ModelProto``, the bytes of a
        ``.tflite`` file, or a ``tvmrt.custom.GraphBuilder``.
    request
        All options as one ``tvmrt.Request``, in place of naming them one by one.
    {options}

    Returns
    -------
    A CompiledLibrary; nothing has been compiled by the C compiler yet, that is done on export.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError for a bad file or argument; UnsupportedError for a
    network that the compiler cannot do. Every text is one sentence.
    """
    draft = _draft(model, _request(request, options))
    with draft.clock.stage("plan"), _on_board(draft):
        (planned,) = plan_memory([draft.need], draft.placement)
    return draft.generate(planned)


def _request(request: Request | None, options: Mapping[str, Any]) -> Request:
    if request is None:
        return make(options)
    if options or not isinstance(request, Request):
        raise TypeError("options go by their names, or all of them in one tvmrt.Request")
    return request


def _draft(model: Any, asked: Request) -> _Draft:
    """The stages up to lowering."""
    family = None if asked.board is None else find_family(asked.board)
    request, machine = _settle(asked, family)
    machine = guided(machine, request.tuned)
    chosen = resolve(request.devices)
    here = machine.name == "native" or (asked.target is None and machine.name == own_family())
    choices.check_required(request.require_device, chosen, here)
    memories = _memories(request, family)
    placement = pool_options.Placement(request.place or {}, memories)
    clock = _Clock(request.progress)
    dump = Dump(request.dump_dir)
    with clock.stage("import"):
        graph = _import(model, request, chosen)
        expand_composed(graph, lambda graph: _claimed(graph, chosen))
    max_memory = request.max_memory or limits.MAX_MEMORY
    limits.check_tensors(graph, max_memory)
    dump.graph("import", graph)
    with clock.stage("transform"):
        optimize(graph, dump.graph)
    with clock.stage("partition"):
        cuts = _cut(graph, request, machine, chosen)
        if asked.target is None and machine.levels and _brings_code(cuts):
            # of a device's C there is one function, not one a level
            machine = guided(get_target("native"), request.tuned)
        if expand_composed(graph):
            optimize(graph, dump.graph)
        if request.requantize == "fixed-point":
            to_fixed_point(graph)
        narrowed = _narrowed(graph, request)
        by_squares = _by_squares(graph, request, machine)
        if not _brings_code(cuts) and any(node.op in PRODUCTS for node in graph.nodes):
            machine = guided(with_matrices(machine, request), request.tuned)
        join_siblings(graph, machine.hosted)
        reduced = _reduced(graph, request)
        infer_layouts(graph)
    if cuts.regions:
        dump.graph("partition", graph)
    with clock.stage("lower"):
        program = recovery.build_program(graph, machine, request.schedule == "async")
        program.labels, program.bundles = dict(graph.labels), dict(graph.bundles)
        program.narrowed, program.reduced, program.winograd = narrowed, reduced, by_squares
        if request.workspace_io:
            program = pool_options.with_io_in_pools(program)
        if request.runtime == "crt":
            _refuse_counts(program, request)
            _refuse_state(program, request)
            program = _by_rows(program, machine, request, memories)
        elif request.row_chains is not False:
            program = with_slabs(program, machine, request.row_chains)
        if request.abi == "tvm-ffi":
            tvm_ffi.refuse(program)
        elif request.runtime != "crt":
            place_on_devices(program)
        if request.schedule == "async" and request.executor == "aot":
            defer_regions(program)
    given = provenance_of(model, request, graph)
    need = Need(program, machine, _print_options(model, request, given), memories)
    bound = limits.RunBound(max_memory, limits.constant_bytes(graph))
    return _Draft(need, placement, clock, dump, request.cc, cuts, bound, family)


def _by_squares(graph: Graph, request: Request, machine: Target) -> list[WinogradRow]:
    """The convolutions that are computed by fewer multiplications."""
    if not (machine.hosted and choices.takes_squares(request.winograd, request.precision)):
        return []
    measured = None if machine.tuned is None else machine.tuned.square
    if request.winograd is None:
        return squares_within(graph, measured)
    return to_winograd(graph, request.max_error, measured)


def _narrowed(graph: Graph, request: Request) -> list[NarrowRow]:
    """The weights that are stored in few bits: of what no device has taken."""
    if request.weights is None:
        return []
    return narrow_weights(graph, request.weights, request.max_error)


def _reduced(graph: Graph, request: Request) -> list[ReducedRow]:
    """The products that are computed in fewer bits, of what no device has taken."""
    if request.precision != "bf16":
        return []
    if not request.calibration:
        return reduce_products(graph)
    run = GraphRunner(get_target("native"), None if request.target in CROSS else request.cc)
    measured = LayerErrors(request.calibration, run)
    return reduce_products(graph, measured, request.max_error)


@contextmanager
def _on_board(draft: _Draft) -> Iterator[None]:
    """What does not fit is told with the board's name."""
    try:
        yield
    except ValueError as problem:
        if draft.family is None:
            raise
        raise ValueError(draft.family.no_room(str(problem))) from problem


def _refuse_counts(program: Program, request: Request) -> None:
    """What tells no extents that a run finds."""
    if request.record and any(step.counts for step in program.steps):
        raise UnsupportedError(
            "record compares tensors of one size, and the network has some whose number of "
            "elements a run finds; choose profile"
        )
    if request.interface_api == "c" or request.executor == "graph":
        return
    for name, type in zip(program.output_names, program.output_types):
        found = counts_in(type.shape)
        if found:
            raise UnsupportedError(
                f"how many elements the output {name} has ({found[0].name}) is known only after a "
                "run, which packed functions without an operating system do not tell; choose "
                "interface-api c or executor graph, or make the network return it padded to a "
                "fixed shape"
            )


def _by_rows(
    program: Program, machine: Target, request: Request, memories: Sequence[MemoryPool]
) -> Program:
    """The program with as many layers computed by rows as the memory demands."""
    limit = request.ram
    if limit is None and len(memories) == 1:
        limit = memories[0].capacity
    if limit is None or request.executor != "aot":
        return program
    return row_chains.within(program, machine, limit, request.ram is not None)


def _refuse_state(program: Program, request: Request) -> None:
    if program.states and request.executor == "graph":
        raise UnsupportedError(
            "the network leaves tensors from run to run, for which the graph executor without an "
            "operating system has no place; choose executor aot"
        )


def _memories(request: Request, family: Family | None) -> list[MemoryPool]:
    """The pools that are asked for; of a board, no more than it has."""
    if family is None:
        return pool_options.make_pools(request.pools)
    family.check_pools(request.pools or {})
    return pool_options.make_pools(request.pools) if request.pools else family.pools()


def _settle(asked: Request, family: Family | None) -> tuple[Request, Target]:
    """The request with nothing left open, checked, and its target."""
    if family is not None:
        if asked.target not in (None, "native", family.target):
            raise ValueError(
                f"board {family.name} has the processor {family.target}; leave target "
                f"{asked.target} out, or leave out the board"
            )
        if asked.levels:
            raise ValueError(f"board {family.name} has a single processor; leave levels out")
        asked = replace(asked, target=family.target)
    asked, bf16 = asked.with_target(), asked.precision == "bf16"
    machine = (
        family.machine() if family else get_target(cast(str, asked.target), asked.levels, bf16)
    )
    request = asked.with_defaults(machine.hosted)
    choices.check(request)
    if bf16 and not any(level.bf16 for level in machine.levels or [machine]):
        warnings.warn(
            f"target {machine.name} has no instruction that multiplies bfloat16: products of "
            "precision bf16 are computed at the speed of float32, in half the memory for weights; "
            "choose precision float32, or a processor with AVX512_BF16 or BFMMLA",
            Remark,
            stacklevel=2,
        )
    if request.module_name:
        check_module_name("module", request.module_name)
    if request.runtime != "crt":
        return request, machine
    if request.params == "embed":
        request = replace(request, params="flash")  # the same thing in an image
    return request, replace(machine, hosted=False)


def _cut(graph: Graph, request: Request, machine: Target, chosen: Sequence[Device]) -> Partition:
    """The network cut over devices, as the request demands."""
    context = Context(
        request.module_name, machine.name, cast(str, request.runtime), cast(str, request.executor),
        dict(request.device_options or {}), machine.board or frozenset(),
    )  # fmt: skip
    reducer = _make_reducer(request, context, machine)
    cuts = partition(graph, chosen, context, request.device_fallback, reducer)
    cuts.check_required(request.require_device)
    choices.check_hooks(cuts.regions, request.interface_api)
    return cuts


def _brings_code(cuts: Partition) -> bool:
    """Whether a device has C of its own for a region."""
    return any(isinstance(region.code, CSource) for region in cuts.regions)


def _print_options(model: Any, request: Request, given: Provenance) -> Options:
    origin = Path(model).name if isinstance(model, (str, os.PathLike)) else ""
    settled = cast(Any, request)  # with_defaults() has left nothing open
    return Options(
        request.module_name, settled.executor, settled.params, origin, settled.runtime,
        request.interface_api, settled.unpacked_api, request.profile, request.record,
        request.trace_records, abi=request.abi, provenance=given,
    )  # fmt: skip


@dataclass
class _Draft:
    """A network that has its steps, and no memory yet."""

    need: Need
    placement: pool_options.Placement
    clock: _Clock
    dump: Dump
    cc: str | None
    cuts: Any
    bound: limits.RunBound
    family: Family | None = None

    def generate(self, planned: Planned, image: SharedImage | None = None) -> CompiledLibrary:
        """The library of a network whose memory is planned; ``image`` is the one that it is in."""
        program, machine = self.need.program, self.need.target
        options = replace(self.need.options, image=image)
        self.bound.check(program)
        self.dump.program("plan", program)
        with self.clock.stage("generate"):
            sources = c_source.generate(program, machine, options, planned.places, planned.printed)
            graph = options.executor == "graph"
            json = graph_file.graph_json(program, sources, options) if graph else None
        library = CompiledLibrary(
            program, sources, options, machine, json, self.clock.seconds, self.cc, self.cuts
        )
        if self.family is not None:
            self.family.check_flash(library.summary.weights_bytes)
        if json is not None and options.firmware:
            arrays = library.get_params()
            sources.files.update(print_files(program, sources, json, arrays))
        return library


def compile_together(
    networks: Mapping[str, Any],
    concurrent: bool | Sequence[Sequence[str]] = False,
    image_name: str = "image",
    shapes: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    dims: Mapping[str, Mapping[str, Any]] | None = None,
    sequences: Mapping[str, Mapping[str, int | None]] | None = None,
    **options: Any,
) -> CompiledImage:
    """Compile several networks for one program without an operating system.

    They have one workspace and one set of pools between them, of the size that the largest needs,
    and store equal weights once.

    Parameters
    ----------
    networks
        Models (see :func:`compile`) by the names that they get in symbols.
    concurrent
        Which networks may be live at a time: one runs while another is in the middle of a run, or
        while another's inputs or outputs in the pools are in use. Their memory is then kept apart,
        and its sizes add up. True: all of them; otherwise groups of names, each network in one at
        most: networks of different groups take turns.
    image_name
        Name of what the networks share: ``tvmgen_<image_name>.h``.
    shapes
        By network: extents of inputs with symbolic dimensions, by input name.
    dims
        By network: dimensions that its runs choose, with their bounds.
    sequences
        By network: numbers of elements of inputs that are sequences.
    options
        As :func:`compile` takes them, for all networks alike. The runtime must be crt.

    Returns
    -------
    A CompiledImage with each network as CompiledLibrary; export writes one archive or folder.

    Raises
    ------
    As :func:`compile`.
    """
    names = list(networks)
    check_names(names, image_name)
    groups = live_groups(names, concurrent)
    sizes = {"shapes": shapes or {}, "dims": dims or {}, "sequences": sequences or {}}
    live = [[names.index(name) for name in group] for group in groups]
    libraries = _generate_image(_drafts(networks, make(options), sizes), live, image_name)
    return CompiledImage(image_name, libraries, groups)


def _drafts(
    networks: Mapping[str, Any], asked: Request, sizes: Mapping[str, Mapping[str, Any]]
) -> list[_Draft]:
    """The networks as drafts; ``sizes``: what requests say of each network for itself."""
    drafts = []
    for name, model in networks.items():
        folder = None if asked.dump_dir is None else Path(asked.dump_dir, name)
        own: dict[str, Any] = {field: of_networks.get(name) for field, of_networks in sizes.items()}
        drafts.append(_draft(model, replace(asked, module_name=name, dump_dir=folder, **own)))
    if any(not d.need.options.firmware or d.need.options.executor != "aot" for d in drafts):
        raise ValueError("networks are compiled together for the crt runtime; choose it, or a "
                         "firmware target, with executor aot")  # fmt: skip
    return drafts


def _generate_image(
    drafts: Sequence[_Draft], live: Sequence[Sequence[int]], image_name: str
) -> list[CompiledLibrary]:
    """The drafts as code that shares memory and weights; ``live``: groups that run at a time."""
    needs = [draft.need for draft in drafts]
    refuse_sharing([need.program for need in needs], live)
    with drafts[0].clock.stage("plan"), _on_board(drafts[0]):
        planned = plan_memory(needs, drafts[0].placement, live)
    image, made = SharedImage(prefix_of(image_name)), []
    for draft, places in zip(drafts, planned):
        made.append(draft.generate(places, image))
        image = image.after(made[-1].sources)
    return made


def _import(model: Any, request: Request, chosen: Sequence[Device]) -> Graph:
    if isinstance(model, tflite.EveryTensor) or tflite.is_tflite(model):
        if request.sequences:
            raise KeyError("inputs of a .tflite network are tensors; give no sequences")
        return tflite.import_model(
            model, request.shapes, request.tflite_rounding or "reference", request.signature,
            gather(request.operators), request.dims,
        )  # fmt: skip
    if isinstance(model, (bytes, bytearray)):
        raise ValueError(
            f"these {len(model)} bytes are no .tflite file; give the path of a network's file, or "
            "an onnx.ModelProto"
        )
    if request.signature is not None:
        raise ValueError("a signature is chosen of .tflite files; other networks have none")
    if not isinstance(model, GraphBuilder):
        operators = gather(request.operators)
        adopters = {d.name: d.adopt for d in chosen if type(d).adopt is not Device.adopt}
        return onnx.import_model(
            model, request.shapes, operators, request.dims, request.sequences, adopters
        )
    if request.shapes or request.dims or request.operators or request.sequences:
        raise ValueError("a GraphBuilder has shapes and operators already; give them to it alone")
    return model.graph()


def _claimed(graph: Graph, devices: Sequence[Device]) -> set[Node]:
    """The nodes that a device other than the CPU takes as they are."""
    said = [device.annotate(graph) for device in devices if device.name != "cpu"]
    return {node for answers in said for node, reason in answers.items() if reason is None}


def _make_reducer(request: Request, context: Context, machine: Target) -> Reducer | None:
    if request.mixed_precision is None:
        return None
    if not machine.hosted:
        raise UnsupportedError(
            "mixed-precision is measured where it is compiled; a board's devices are not there"
        )
    run = GraphRunner(get_target("native"), None if machine.triple else request.cc)
    return Reducer(request.mixed_precision, request.max_error, request.calibration, run, context)


class _Clock:
    """Seconds by stage, and the caller's progress."""

    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self._progress is not None:
            self._progress(name, len(self.seconds), STAGES)
        begin = time.perf_counter()
        yield
        drop_pages()
        self.seconds[name] = time.perf_counter() - begin


__all__ = ["compile", "compile_together"]
