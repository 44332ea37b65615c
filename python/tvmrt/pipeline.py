"""The compiler from end to end: an ONNX network to a library that can be exported.

``frontend -> ir -> transform -> partition -> codegen (program) -> planner -> codegen (C) ->
export``; each stage is a function of its own, this file only calls them in order.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tvmrt import choices
from tvmrt.calibration import GraphRunner
from tvmrt.codegen import c_source, graph_entries, pool_options, recovery
from tvmrt.codegen.image_memory import Need, plan_memory
from tvmrt.codegen.naming import check_module_name
from tvmrt.codegen.options import Options, prefix_of
from tvmrt.codegen.target import Target, get_target
from tvmrt.custom import GraphBuilder, gather
from tvmrt.devices import Context, Device, resolve
from tvmrt.error import UnsupportedError
from tvmrt.export.dump import Dump
from tvmrt.export.firmware_graph import print_files
from tvmrt.export.image import CompiledImage, check_names, live_groups
from tvmrt.export.library import CompiledLibrary
from tvmrt.frontend.onnx import import_model
from tvmrt.ir import Graph, Node
from tvmrt.partition import Reducer, partition
from tvmrt.transform import expand_composed, infer_layouts, optimize

Progress = Callable[[str, int, int], None]


def compile(
    model: Any,
    executor: str | None = None,
    interface_api: str = "packed",
    unpacked_api: bool = False,
    runtime: str | None = None,
    target: str = "native",
    devices: Sequence[str | Device] = (),
    operators: Sequence[Any] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: str | None = None,
    pools: Mapping[str, int | tuple[int, str]] | None = None,
    workspace_io: bool = False,
    place: Mapping[str, str] | None = None,
    module_name: str = "default",
    dump_dir: str | os.PathLike | None = None,
    explain: bool = False,
    require_device: Sequence[str] = (),
    device_fallback: bool = False,
    device_options: Mapping[str, Mapping[str, Any]] | None = None,
    schedule: str = "sync",
    mixed_precision: str | None = None,
    max_error: float | None = None,
    calibration: Sequence[Mapping[str, Any]] = (),
    progress: Progress | None = None,
    cc: str | None = None,
    profile: bool = False,
    record: bool = False,
    trace_records: int | None = None,
) -> CompiledLibrary:
    """Compile an ONNX network.

    Parameters
    ----------
    model
        Path of an ``.onnx`` file, an ``onnx.ModelProto``, or a ``tvmrt.custom.GraphBuilder``.
    executor
        ``graph``: operators as packed functions and a graph JSON; ``aot``: one main function,
        ahead of time. None: aot for firmware targets, else graph.
    interface_api
        How a program calls a crt network: ``packed`` functions over tensors, or ``c`` structs
        of pointers and a header.
    unpacked_api
        Whether the main function of a crt network calls operators by plain pointers.
    runtime
        ``host``: with an operating system; ``crt``: without one, no heap, no threads. None: crt
        on firmware targets, else host.
    target
        ``native`` (this processor), ``host`` (any of its architecture) or a firmware target.
    devices
        What may run parts of the network, by name or as ``tvmrt.devices.Device``, in order of
        preference. What none takes stays on the CPU; the summary's ``nodes`` say why.
    operators
        Operators of one's own for this network: ``tvmrt.custom`` operators, and paths of Python
        files and shared libraries that bring some. Those of installed wheels are known anyway.
    shapes
        Extents of inputs with symbolic dimensions, by input name.
    params
        ``embed``: weights in the library; ``file``: weights as further inputs, loaded from
        the params that the library gives out; ``flash``: weights as C arrays. None: flash for
        firmware, else embed.
    pools
        Of a crt network: the memories for intermediate values by name, the preferred (fastest)
        first. ``bytes``: the caller lends it; ``(bytes, section)``: the image has it, in that
        section of the linker. Without any, the network has one of its own.
    workspace_io
        Of a crt network with the C interface: whether inputs and outputs lie in the pools, too.
    place
        Of a crt network: patterns of names of tensors or weights, each with a pool that they must
        lie in, ``flash``, or ``flash@SECTION`` for weights in that section of the linker. Weights
        in a pool are copied there by ``tvmgen_<name>_load()``.
    module_name
        The network's name in symbols (``tvmgen_<name>_...``) and in the factory.
    dump_dir
        A folder that receives the graph after every step.
    require_device
        Rules ``device`` (must take something) and ``device:OpType`` (must take every ONNX node of
        that type).
    device_fallback
        Whether devices may fail: the CPU's code for each region is part of the library, too, and
        runs where the region fails.
    device_options
        Options for devices, by name; what they mean is in each device's own page.
    schedule
        ``async``: regions on different devices may run at the same time, so memory is planned
        apart for what they touch; the graph executor's ``set_scheduler`` does it. ``sync``: one
        step after the other, in the least memory.
    mixed_precision
        ``bf16``, ``fp16`` or ``int8``: what devices that can may compute in. The network's own
        inputs and outputs keep their types.
    max_error
        How far the results of a region may then be off, in parts of its largest value. Of a region
        that is off further, fewer nodes are reduced; if none can be, UnsupportedError is raised.
    calibration
        Inputs of the network on which the error is measured: arrays by name, one mapping a sample.
    progress
        Called with (stage, steps done, steps in all).
    cc
        The C compiler's command; found by itself when None.
    profile
        Whether a crt network counts the cycles of its operators, by tvmrt_platform_cycles() of
        the board.
    record
        Whether a crt network records hash, smallest and largest element of every tensor it
        writes, for ``tvmrt replay``.
    trace_records
        How many records it keeps; None: as many as one run makes.

    Returns
    -------
    A CompiledLibrary; nothing has been compiled by the C compiler yet, that is done on export.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError for a bad file or argument; UnsupportedError for a
    network that the compiler cannot do. Every text is one sentence.
    """
    draft = _draft(**locals())  # just the parameters: nothing else has a name yet
    with draft.clock.stage("plan"):
        plan_memory([draft.need], draft.placement)
    return draft.generate()


def _draft(
    model: Any, executor, interface_api, unpacked_api, runtime, target, devices, operators, shapes,
    params, pools, workspace_io, place, module_name, dump_dir, explain, require_device,
    device_fallback, device_options, schedule, mixed_precision, max_error, calibration,
    progress, cc, profile, record, trace_records,
) -> _Draft:  # fmt: skip
    """The stages up to lowering; the parameters are those of compile()."""
    machine = get_target(target)
    executor = executor or ("graph" if machine.hosted else "aot")
    runtime = runtime or ("host" if machine.hosted else "crt")
    params = params or ("embed" if machine.hosted and runtime == "host" else "flash")
    choices.check_interface(executor, interface_api, unpacked_api, runtime, params)
    if module_name:
        check_module_name("module", module_name)
    if runtime == "crt" and params == "embed":
        params = "flash"  # the same thing in an image
    chosen = resolve(devices)
    choices.check_required(require_device, chosen)
    choices.check_schedule(schedule, executor, runtime)
    choices.check_trace(profile, record, trace_records, runtime, unpacked_api)
    choices.check_pools(pools, place, executor, runtime)
    memories = pool_options.make_pools(pools or {}, runtime)
    placement = pool_options.Placement(place or {}, memories)
    choices.check_workspace_io(workspace_io, runtime, interface_api)
    choices.check_place(place, runtime)
    if runtime == "crt":
        machine = replace(machine, hosted=False)
    clock = _Clock(progress)
    dump = Dump(dump_dir)
    with clock.stage("import"):
        graph = _import(model, shapes, operators)
        expand_composed(graph, lambda graph: _claimed(graph, chosen))
    dump.graph("import", graph)
    with clock.stage("transform"):
        optimize(graph, machine, dump.graph)
    with clock.stage("partition"):
        context = Context(module_name, machine.name, runtime, executor, dict(device_options or {}))
        reducer = _make_reducer(mixed_precision, max_error, calibration, context, machine, cc)
        cuts = partition(graph, chosen, context, device_fallback, reducer)
        cuts.check_required(require_device)
        choices.check_hooks(cuts.regions, interface_api)
        if expand_composed(graph):
            optimize(graph, machine, dump.graph)
        infer_layouts(graph)
    if cuts.regions:
        dump.graph("partition", graph)
    with clock.stage("lower"):
        program = recovery.build_program(graph, machine)
    program.concurrent = schedule == "async"
    if workspace_io:
        pool_options.move_io_into_pools(program)
    origin = Path(model).name if isinstance(model, (str, os.PathLike)) else ""
    options = Options(
        module_name, executor, params, origin, runtime, interface_api, unpacked_api,
        profile=profile, record=record, trace_records=trace_records,
    )  # fmt: skip
    need = Need(program, machine, options, memories)
    return _Draft(need, placement, clock, dump, cc, cuts)


@dataclass
class _Draft:
    """A network that has its steps, and no memory yet."""

    need: Need
    placement: pool_options.Placement
    clock: _Clock
    dump: Dump
    cc: str | None
    cuts: Any

    def generate(self) -> CompiledLibrary:
        """The library of a network whose memory is planned."""
        program, machine, options = self.need.program, self.need.target, self.need.options
        self.dump.program("plan", program)
        with self.clock.stage("generate"):
            sources = c_source.generate(program, machine, options)
            graph = options.executor == "graph"
            json = graph_entries.graph_json(program, sources, options) if graph else None
        library = CompiledLibrary(
            program, sources, options, machine, json, self.clock.seconds, self.cc, self.cuts
        )
        if json is not None and options.firmware:
            arrays = library.get_params()
            sources.files.update(print_files(program, sources, json, arrays))
        return library


def compile_together(
    networks: Mapping[str, Any],
    concurrent: bool | Sequence[Sequence[str]] = False,
    image_name: str = "image",
    shapes: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
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
    dump_dir = options.pop("dump_dir", None)
    drafts = []
    for name, model in networks.items():
        folder = None if dump_dir is None else Path(dump_dir, name)
        bound = inspect.signature(compile).bind(
            model, module_name=name, shapes=(shapes or {}).get(name), dump_dir=folder, **options
        )
        bound.apply_defaults()
        drafts.append(_draft(**bound.arguments))
    image = prefix_of(image_name)
    known: dict[tuple, str] = {}
    for draft in drafts:
        if not draft.need.options.firmware or draft.need.options.executor != "aot":
            raise ValueError("networks are compiled together for the crt runtime; choose it, or a "
                             "firmware target, with executor aot")  # fmt: skip
        draft.need.options.image, draft.need.options.shared_weights = image, known
    placement = pool_options.Placement(options.get("place") or {}, drafts[0].need.pools)
    with drafts[0].clock.stage("plan"):
        live = [[names.index(name) for name in group] for group in groups]
        plan_memory([draft.need for draft in drafts], placement, live)
    return CompiledImage(image_name, [draft.generate() for draft in drafts], groups)


def _import(model: Any, shapes: Mapping[str, Sequence[int]] | None, operators) -> Graph:
    if not isinstance(model, GraphBuilder):
        return import_model(model, shapes, gather(operators))
    if shapes or operators:
        raise ValueError("a GraphBuilder has shapes and operators already; give them to it alone")
    return model.graph()


def _claimed(graph: Graph, devices: Sequence[Device]) -> set[Node]:
    """The nodes that a device other than the CPU takes as they are."""
    said = [device.annotate(graph) for device in devices if device.name != "cpu"]
    return {node for answers in said for node, reason in answers.items() if reason is None}


def _make_reducer(
    mixed_precision, max_error, calibration, context: Context, machine: Target, cc
) -> Reducer | None:
    if mixed_precision is None:
        if max_error is not None or calibration:
            raise ValueError("max-error and calibration are for mixed-precision; choose one")
        return None
    run = GraphRunner(get_target("native"), cc)
    if not machine.hosted:
        raise UnsupportedError(
            "mixed-precision is measured where it is compiled; a board's devices are not there"
        )
    return Reducer(mixed_precision, max_error, calibration, run, context)


class _Clock:
    """Seconds by stage, and the caller's progress."""

    STAGES = 6

    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self._progress is not None:
            self._progress(name, len(self.seconds), self.STAGES)
        begin = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begin


__all__ = ["compile", "compile_together"]
