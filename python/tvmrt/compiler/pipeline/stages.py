"""Stages of compilation: up to lowering of one network, then code generation.

Memory planning is between the two, because the networks of one image share memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from tvmrt.compiler import option_rules
from tvmrt.compiler.codegen import c_source, pool_options, rematerialize
from tvmrt.compiler.codegen.depth_first_tiling import tile_depth_first
from tvmrt.compiler.codegen.device_placement import defer_regions, place_on_devices
from tvmrt.compiler.codegen.entries import graph_json as graph_file
from tvmrt.compiler.codegen.entries import tvm_ffi
from tvmrt.compiler.codegen.kernel_features import BOARD_KERNELS
from tvmrt.compiler.codegen.mcu_families import McuFamily, find_mcu_family
from tvmrt.compiler.codegen.options import SharedImage
from tvmrt.compiler.codegen.shared_workspace import PlacedNetwork, UnplannedNetwork
from tvmrt.compiler.codegen.target import Target, get_target, native_family, with_amx_level
from tvmrt.compiler.codegen.window.boards.int16_layers import has_int16_kernel
from tvmrt.compiler.devices import Context, Device, resolve
from tvmrt.compiler.export.dump import Dump
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.ir import CSource, Graph, Value, limits
from tvmrt.compiler.ir.custom import copy_graph
from tvmrt.compiler.ir.mmap_constants import drop_pages
from tvmrt.compiler.ir.program import MemoryPool, Program
from tvmrt.compiler.ir.quantized import add_quantization
from tvmrt.compiler.ir.sizes import symbols_of
from tvmrt.compiler.ir.state import carried_values
from tvmrt.compiler.partition.partition import Partition, partition
from tvmrt.compiler.provenance import provenance_of
from tvmrt.compiler.request import Request
from tvmrt.compiler.transform.expand_composed import expand_composed
from tvmrt.compiler.transform.fixed_point_requantize import to_fixed_point
from tvmrt.compiler.transform.float_sums import sums_in_float
from tvmrt.compiler.transform.fold_requantization import fold_requantization
from tvmrt.compiler.transform.fold_sign_change import fold_sign_change
from tvmrt.compiler.transform.int16_products import lower_int16_products
from tvmrt.compiler.transform.layout_inference import infer_layouts
from tvmrt.compiler.transform.merge_sibling_convs import merge_sibling_convs
from tvmrt.compiler.transform.nest_concats import nest_concats
from tvmrt.compiler.transform.optimize import optimize
from tvmrt.error import UnsupportedError, UnsupportedSizes
from tvmrt.option_syntax import option, options

from . import load_model, reduced_precision, resolve_options
from .open_dims import is_for_board

Progress = Callable[[str, int, int], None]
STAGES = 7  # the last is the C compiler, when a library is built
C_COMPILER = "C compiler"


def lower_network(model: Any, requested: Request, target: Target | None = None) -> LoweredNetwork:
    """Run the stages up to lowering. ``target``: another one than that of the request."""
    family = None if requested.board is None else find_mcu_family(requested.board)
    request, machine = resolve_options.resolve_request(requested, family, target)
    chosen = resolve(request.devices)
    _check_required_device(request, requested, chosen, machine)
    memory_pools = resolve_options.memory_pools(request, family)
    placement = pool_options.Placement(request.place or {}, memory_pools)
    clock, dump = _Clock(request.progress), Dump(request.dump_dir)
    with clock.stage("import"):
        is_bounded = is_for_board(request) or requested.executor == "graph"
        graph = load_model.import_graph(model, request, chosen, is_bounded)
        add_quantization(graph)
        expand_composed(graph, lambda graph: load_model.supported_nodes(graph, chosen))
    carried, reports = carried_values(graph), _reports(request, model, graph)
    request = _with_executor(request, requested, graph)
    limits.check_tensors(graph, request.max_memory or limits.MAX_MEMORY)
    dump.graph("import", graph)
    with clock.stage("transform"):
        _optimize(graph, request, machine, dump)
    with clock.stage("partition"):
        cuts = _partition_graph(graph, request, machine, chosen)
        if requested.target is None and machine.levels and _has_device_code(cuts):
            # C code of a device has one function, not one for each ISA level
            machine = get_target("native")
        if expand_composed(graph):
            optimize(graph, dump.graph)
        _requantize(graph, request, machine)
        narrowed = reduced_precision.apply_weight_quantization(graph, request)
        winograd_rows = reduced_precision.apply_winograd(graph, request, machine)
        if not _has_device_code(cuts) and any(n.operator.is_integer_product for n in graph.nodes):
            machine = with_amx_level(machine, request.target or "", request.levels)
        _join(graph, machine)
        reduced = reduced_precision.mark_precision(graph, request)
        infer_layouts(graph)
        if cuts.regions:
            dump.graph("partition", graph)
    with clock.stage("lower"):
        program = rematerialize.build_program(graph, machine, request.schedule == "async")
        program = _with_names(program, graph, carried)
        program.narrowed, program.reduced, program.winograd = narrowed, reduced, winograd_rows
        if request.workspace_io:
            program = pool_options.with_io_in_pools(program)
        if request.runtime == "crt":
            _check_data_dependent_sizes(program, request)
            _check_state(program, request)
            program = _use_memory(program, machine, request, family, memory_pools)
        elif request.row_chains is not False:
            program = tile_depth_first(program, machine, request.row_chains)
        if request.abi == "tvm-ffi":
            tvm_ffi.refuse(program)
        elif request.runtime != "crt":
            place_on_devices(program)
        if request.schedule == "async" and request.executor == "aot":
            defer_regions(program)
    bound = limits.run_bound(graph, request.max_memory)
    provenance = provenance_of(model, request, graph)
    settings = resolve_options.print_options(model, request, provenance, bound)
    need = UnplannedNetwork(program, machine, settings, memory_pools)
    return LoweredNetwork(need, placement, clock, dump, request.cc, cuts, bound, family, reports)


def _reports(request: Request, model: Any, graph: Graph) -> list[Callable[[CompiledLibrary], None]]:
    """Return the functions of plug-ins' options that report on the compiled network."""
    return [
        partial(row.report, request, model, _snapshot(graph))
        for _, row, value in request.options()
        if row.report is not None and value != row.default
    ]


def _snapshot(graph: Graph) -> Graph:
    """Return a copy whose constants keep their links to integers, which optimisation removes."""
    copy, constants = copy_graph(graph), {}
    for node in copy.nodes:
        for v in node.inputs:
            if v is not None and v.is_constant:
                constants[v] = constants.get(v) or Value(v.name, v.type, v.producer, v.data)
        node.inputs = [constants.get(v, v) for v in node.inputs]
    return copy


def _check_required_device(
    request: Request, requested: Request, chosen: Sequence[Device], machine: Target
) -> None:
    families = ("native", native_family()) if requested.target is None else ("native",)
    option_rules.check_required(request.require_device, chosen, machine.name in families)


def _with_executor(request: Request, requested: Request, graph: Graph) -> Request:
    """Return the request with the executor that plans memory in each run, if dimensions have no
    bounds."""
    values = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]
    open_ = sorted({s.name for s in symbols_of(*(v.shape for v in values)) if s.is_unbounded})
    if not open_ or request.executor == "aot":
        return request
    if requested.executor is None:
        return replace(request, executor="aot")
    raise UnsupportedSizes(
        f"the graph executor plans memory when a network is compiled; choose "
        f"{option('executor', 'aot')}, or declare bounds of {', '.join(open_)} with "
        f"{option('dims')}"
    )


def _optimize(graph: Graph, request: Request, machine: Target, dump: Dump) -> None:
    """Optimise the graph in place, with the changes that options of plug-ins make to it."""
    optimize(graph, dump.graph)
    if lower_int16_products(graph, partial(has_int16_kernel, target=machine)):
        optimize(graph, dump.graph)
    for _, row, value in request.options():
        if row.graph is not None and value != row.default:
            row.graph(graph, value)
            optimize(graph, dump.graph)


def _requantize(graph: Graph, request: Request, machine: Target) -> None:
    """Requantise in fixed point as requested, as one node with the product where possible."""
    if request.requantize == "fixed-point":
        to_fixed_point(graph)
    if BOARD_KERNELS.of(machine):
        from tvmrt.compiler.codegen.window.boards.computed_matmul import requantizes
        from tvmrt.compiler.transform.quantize_softmax import quantize_softmax

        fold_requantization(graph, requantizes)
        if not machine.fixed_order:  # hosts compute in floating point
            quantize_softmax(graph)
    else:
        fold_requantization(graph)
    lower_int16_products(graph, partial(has_int16_kernel, target=machine), narrows=True)
    fold_sign_change(graph)
    if not BOARD_KERNELS.of(machine):
        sums_in_float(graph)


def _with_names(program: Program, graph: Graph, carried: dict[str, str]) -> Program:
    """Return the program with labels, bundles, aliases and quantisation of inputs and outputs."""
    program.carried = carried
    program.labels, program.bundles = dict(graph.labels), dict(graph.bundles)
    program.aliases, program.open_axes = dict(graph.aliases), dict(graph.open_axes)
    program.columns = graph.columns
    program.input_quantization = dict(graph.input_quantization)
    program.output_quantization = dict(graph.output_quantization)
    return program


def _join(graph: Graph, machine: Target) -> None:
    """Merge convolutions with the same input, and nest concatenations."""
    merge_sibling_convs(graph, machine.hosted)
    if machine.hosted:
        nest_concats(graph)


def _fuse_rows(
    program: Program, machine: Target, request: Request, memory_pools: Sequence[MemoryPool]
) -> Program:
    """Return the program with layers that run by rows: as many as the limit needs, or, without
    one, those that save memory for few instructions."""
    from tvmrt.compiler.codegen import row_fusion

    if request.executor != "aot":
        return program
    if request.ram is not None:
        return row_fusion.fit_memory_limit(program, machine, request.ram)
    if request.record or request.place or len(memory_pools) > 1:
        return program  # each layer's tensors are asked for
    capacity = memory_pools[0].capacity if memory_pools else None
    return row_fusion.choose_plan(program, machine, capacity)


def _use_memory(
    program: Program, machine: Target, request: Request, family: McuFamily | None,
    memory_pools: Sequence[MemoryPool],
) -> Program:  # fmt: skip
    """Return the program with layers that run by rows, and with copies of weights in RAM where
    flash is slow, unless the caller places the weights."""
    program = _fuse_rows(program, machine, request, memory_pools)
    in_flash = family is not None and family.reads.wait_states and request.params in (None, "flash")
    placed = request.place or request.record or len(memory_pools) != 1
    if not in_flash or placed or request.executor != "aot" or program.dims():
        return program
    from tvmrt.compiler.codegen.weights_in_ram import with_weights_in_ram

    return with_weights_in_ram(program, family.reads, memory_pools[0].capacity, request.ram)


def _check_data_dependent_sizes(program: Program, request: Request) -> None:
    """Raise UnsupportedError if the interface cannot return data-dependent sizes."""
    if request.record and any(step.data_dependent_dims for step in program.steps):
        raise UnsupportedError(
            options(
                "{record} does not support the network's data-dependent sizes; choose {profile}"
            )
        )
    if request.interface_api == "c" or request.executor == "graph":
        return
    program.reject_data_dependent_outputs(
        options(
            "which packed functions of {runtime=crt} cannot return; choose {interface_api=c} or "
            "{executor=graph}"
        )
    )


def _check_state(program: Program, request: Request) -> None:
    if program.states and request.executor == "graph":
        raise UnsupportedError(
            options(
                "the network keeps state between runs, which the graph executor of {runtime=crt} "
                "does not support; choose {executor=aot}"
            )
        )


def _partition_graph(
    graph: Graph, request: Request, machine: Target, chosen: Sequence[Device]
) -> Partition:
    """Partition the network over devices as requested."""
    context = Context(
        request.module_name, machine.name, cast(str, request.runtime), cast(str, request.executor),
        dict(request.device_options or {}), machine.board or frozenset(),
    )  # fmt: skip
    reducer = reduced_precision.make_reducer(request, context, machine)
    cuts = partition(graph, chosen, context, request.device_fallback, reducer)
    cuts.check_required(request.require_device)
    option_rules.check_hooks(cuts.regions, request.interface_api)
    if request.real_time:
        option_rules.check_real_time(cuts.regions, chosen)
    return cuts


def _has_device_code(cuts: Partition) -> bool:
    """Return whether a device has its own C code for a region."""
    return any(isinstance(region.code, CSource) for region in cuts.regions)


@contextmanager
def on_board(lowered: LoweredNetwork) -> Iterator[None]:
    """Add the board's name to errors about insufficient memory."""
    try:
        yield
    except ValueError as problem:
        if lowered.family is None:
            raise
        raise ValueError(lowered.family.out_of_memory_text(str(problem))) from problem


@dataclass
class LoweredNetwork:
    """Network that is lowered to steps, without a memory plan."""

    need: UnplannedNetwork
    placement: pool_options.Placement
    clock: _Clock
    dump: Dump
    cc: str | None
    cuts: Any
    bound: limits.RunBound
    family: McuFamily | None = None
    reports: Sequence[Callable[[CompiledLibrary], None]] = ()

    def generate(self, planned: PlacedNetwork, image: SharedImage | None = None) -> CompiledLibrary:
        """Generate the library of a network with planned memory; ``image``: the image it is in."""
        program, machine = self.need.program, self.need.target
        options = replace(self.need.options, image=image)
        self.bound.check(program)
        self.dump.program("plan", program)
        with self.clock.stage("generate"):
            sources = c_source.generate(program, machine, options, planned.places, planned.printed)
            if options.real_time:
                from tvmrt.compiler.codegen import real_time

                real_time.check(sources)
            graph = options.executor == "graph"
            json = graph_file.graph_json(program, sources, options) if graph else None
        library = CompiledLibrary(
            program, sources, options, machine, json, self.clock.seconds, self.cc, self.cuts
        )
        if self.family is not None:
            self.family.check_flash(library.summary.weights_bytes)
        if json is not None and options.firmware:
            from tvmrt.compiler.export.firmware_graph import print_files

            arrays = library.get_params()
            sources.files.update(print_files(program, sources, json, arrays))
        for report in self.reports:
            report(library)
        return library


class _Clock:
    """Time in seconds by stage, and calls of the caller's progress function."""

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
