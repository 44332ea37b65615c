"""Options of the compiler: one row each, with everything but its effect.

The signature and the docstring of ``tvmrt.compile`` and ``tvmrt.load``, the command line with its
help and completion, the type stub (``python docs/option_types.py``), the reference pages
(``docs/generate_reference.py``), the cache key, the manifest and the checks are made from
the rows; ``option_rules.py`` has the valid combinations of several options. To add an option, add a
row here and read the field of the request where it takes effect. This module imports nothing slow,
because the help of commands needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from tvmrt import option_syntax, plugin, toolchains
from tvmrt.compiler import option_values
from tvmrt.compiler.codegen.mcu_families import MCU_FAMILIES, board_names
from tvmrt.compiler.codegen.target import (
    CROSS,
    HERE,
    LEVELS,
    UNHOSTED,
    default_target,
    local_target,
    target_names,
)
from tvmrt.compiler.unknown_option import unknown_option_text
from tvmrt.compiler.value_types import checked
from tvmrt.option import Option

if TYPE_CHECKING:
    import os

    from tvmrt.compiler.custom import OperatorSource
    from tvmrt.compiler.devices import Device


# ruff: noqa: RUF009
# _option() creates a field and is called once for each option


# commands with an option, in addition to compile
MEASURE = ("verify", "bench")


def _option(default: Any, text: str, **row: Any) -> Any:
    return field(default=default, metadata={"row": Option(text, default=default, **row)})


def _executor(request: Request, hosted: bool) -> str:
    return "graph" if hosted and request.abi == "packed" else "aot"


def _level_names() -> list[str]:
    return list(dict.fromkeys(level.name for each in LEVELS.values() for level in each))


def _device_names() -> list[str]:
    from tvmrt.compiler.devices import names

    return names()


# fmt: off
@dataclass(frozen=True)
class Request:
    """Options of ``tvmrt.compile`` as one record; see there for their meaning.

    The fields are in the order in which users need them.
    """

    executor: str | None = _option(
        None,
        "Executor: ``graph`` runs the operators of a graph JSON, ``aot`` is one generated "
        "function. Default: graph; aot for a board.",
        values=("graph", "aot"), group="Target", commands=MEASURE, choose=_executor,
    )
    runtime: str | None = _option(
        None,
        "Runtime on the target: ``host`` needs an operating system, ``crt`` needs none and uses "
        "no heap and no threads. Default: host; crt for a board.",
        values=("host", "crt"), group="Target",
        choose=lambda _request, hosted: "host" if hosted else "crt",
    )
    interface_api: str = _option(
        "packed",
        "Interface of a network for a board: ``packed``, functions of tensors as in TVM, or "
        "``c``, a C function with a header that takes structs of pointers.",
        values=("packed", "c"), group="Boards", common=True,
    )
    unpacked_api: bool | None = _option(
        None,
        "Call operators with plain pointers instead of packed functions. Default: on for a "
        "board with executor aot.",
        kind="bool", group="Boards",
        choose=lambda request, _: request.runtime == "crt" and request.executor == "aot",
    )
    abi: str = _option(
        "packed",
        "ABI of a library for hosts: ``packed`` functions, or ``tvm-ffi``, which adds a "
        "function of input and output tensors for tvm_ffi, torch and JAX that needs no runtime. "
        "tvm-ffi implies executor aot.",
        values=("packed", "tvm-ffi"), group="Target",
    )
    target: str | None = _option(
        None,
        "Processor to compile for. Default: the environment variable TVMRT_TARGET; without it, "
        "this machine's family on Linux (x86-64, aarch64-linux or armv7-linux), or native: on "
        "other systems, for runtime crt, and in commands that run the network.",
        table={
            "native": "this machine only",
            "host": "all machines of this machine's family, without vector extensions",
            ", ".join(LEVELS): "code for several ISA levels, selected at load time",
            ", ".join(name for name in CROSS if name not in LEVELS): "by a cross compiler",
            ", ".join(UNHOSTED): "no operating system: boards; WebAssembly with SIMD",
        },
        form="NAME", group="Target", common=True,
        commands=MEASURE, complete=target_names, recorded=False,
    )
    levels: Sequence[str] = _option(
        (),
        "Instruction-set levels to generate code for, by target. Default: "
        f"all but {', '.join(t.name for t in LEVELS['x86-64'] if t.opt_in)}; the bfloat16 "
        "levels only for precision bf16, v4amx also for int8 layers.",
        table={name: ", ".join(t.name for t in LEVELS[name]) for name in LEVELS},
        form="NAME[,NAME...]", repeated=True, group="Target", recorded=False,
        commands=MEASURE, parse=option_values.parse_names, complete=_level_names,
    )
    board: str | None = _option(
        None,
        "Microcontroller family to compile for, instead of a target; sets the processor and the "
        f"memory limits: {', '.join(MCU_FAMILIES)}.",
        form="NAME", group="Boards", common=True, complete=board_names,
    )
    devices: Sequence[str | Device] = _option(
        (),
        "Devices that may compute parts of the network, in order of preference; ``tvmrt device "
        "list`` shows them. The CPU computes the rest.",
        python="Names or ``tvmrt.devices.Device``; ``nodes`` of the summary has the reason for "
            "nodes without a device.",
        flag="--device", form="NAME[,NAME...]", repeated=True, group="Devices", common=True,
        commands=MEASURE, parse=option_values.parse_names, complete=_device_names,
    )
    require_device: Sequence[str] = _option(
        (),
        "Fail unless this device takes a node, or every node of an operator: npu:Conv.",
        form="NAME[:OPERATOR][,...]", repeated=True, group="Devices",
        parse=option_values.parse_names, complete=_device_names,
    )
    device_fallback: bool = _option(
        False,
        "Compute a region on the CPU if its device fails; adds CPU code for each region.",
        flag="--device-fallback", kind="bool", group="Devices",
    )
    schedule: str = _option(
        "sync",
        "Order of regions: ``async`` runs regions of different devices concurrently, which "
        "needs more memory.",
        values=("sync", "async"), group="Devices",
    )
    mixed_precision: str | None = _option(
        None,
        "Reduced precision for devices that support it; inputs and outputs of the network keep "
        "their types.",
        values=("bf16", "fp16", "int8"), group="Devices",
    )
    precision: str = _option(
        "float32",
        "Precision of convolutions and matmuls on the CPU: ``bf16`` rounds both operands to "
        "bfloat16 and accumulates in float32. Weights need half the memory. Faster with AMX, "
        "AVX512_BF16 or BFMMLA; as fast as float32 elsewhere. Depthwise layers and recurrent "
        "cells, other than products with their inputs, stay in float32. ``int8`` rounds 16 or more "
        "rows that are multiplied with int8 or int4 weights, as in the prompt of a decoder, to 8 "
        "bits; all other layers stay in float32. "
        "Faster with AVX-512 VNNI; float32 elsewhere.",
        python="``reduced`` of the summary lists the layers.",
        values=("float32", "bf16", "int8"), common=True, commands=MEASURE,
    )
    weights: str | None = _option(
        None,
        "Quantise weights of matmuls and embedding tables to 8 or 4 bits, in blocks with a "
        "scale each. Decoders, which are limited by memory bandwidth, become faster. Results "
        "are those of the rounded weights.",
        python="``narrowed`` of the summary has the error of each weight.",
        values=("int8", "int4"), common=True,
    )
    winograd: bool | None = _option(
        None,
        "Compute 3x3 convolutions of stride 1 with Winograd where it is faster. Their weights "
        "become 1.8 or 4 times as large; the relative error is about 1e-6. Default: float32 "
        "networks on hosts, until the weights grow by a quarter or 4 MiB.",
        python="``winograd`` of the summary has the error of each layer.",
        kind="bool", commands=MEASURE,
    )
    reproducible: bool = _option(
        False,
        "Give the same bits on every processor, for any number of threads, any batch and any "
        "compiler: sums have a fixed order, and no product is fused with an addition unless the "
        "network's operators say so.",
        kind="bool", commands=MEASURE,
    )
    row_chains: bool | None = _option(
        None,
        "Compute adjacent float32 convolutions and pooling, and attention, a few rows at a time "
        "(row-wise fusion), so that intermediate results stay in the cache. Results are the same. "
        "Default: where it is faster on hosts; on boards as ``ram`` requires.",
        kind="bool", commands=MEASURE,
    )
    max_error: float | None = _option(
        None,
        "Maximum relative error of a layer: 0.01 or 1%. Layers with a larger error stay in "
        "float32, or use direct convolution. The error depends on the option that is given with "
        "it; each option is limited by itself, and errors are not added up.",
        table={
            "mixed-precision, precision": "largest difference relative to the largest value, on "
                "the calibration inputs",
            "weights, winograd": "RMS of the difference relative to the RMS of the values",
        },
        python="UnsupportedError is raised if no region can be reduced.",
        form="FRACTION", kind="float", unit="fraction",
    )
    calibration: Sequence[Mapping[str, Any]] = _option(
        (),
        "Inputs on which errors are measured; one file for each sample.",
        python="One mapping of arrays by name for each sample.",
        form="IN.npz", kind="path", repeated=True, recorded=False,
    )
    device_options: Mapping[str, Mapping[str, Any]] | None = _option(
        None,
        "Option of a device, such as npu:threads=2; the page of the device lists them.",
        python="Mappings by name of the device.",
        flag="--device-option", form="NAME:KEY=VALUE", repeated=True, group="Devices",
        parse=option_values.parse_device_options, example={"npu": {"threads": 2}}, recorded=False,
    )
    operators: Sequence[OperatorSource] | OperatorSource = _option(
        (),
        "Python file with custom operators. Those of installed packages are "
        "found automatically.",
        python="``tvmrt.custom`` operators and paths.",
        form="FILE", kind="path", repeated=True, commands=MEASURE, recorded=False,
    )
    shapes: Mapping[str, Sequence[int | str]] | None = _option(
        None,
        "Shape of an input, if the file has a dynamic or another shape. A dimension may stay "
        "dynamic up to a bound: N<=8.",
        python="Shapes by input name.",
        flag="--shape", form="INPUT=DIM,...", repeated=True, common=True,
        commands=MEASURE, parse=option_values.parse_shapes, example={"x": (1, 3)},
    )
    dims: Mapping[str, int | str | tuple[int, int]] | None = _option(
        None,
        "Bounds of a dynamic dimension by its name in the file: batch=1..8, seq<=128 (from 1), "
        "or total=past+seq. Memory is planned for the upper bound. Default: any size, with "
        "memory planned in each run; boards need bounds.",
        python="By name: the maximum, (minimum, maximum), or an expression of other dimensions "
        "as text; an axis without a name is called by input and index, such as ``x_2``.",
        flag="--dim", form="NAME=LOW..HIGH", repeated=True, common=True,
        commands=MEASURE, parse=option_values.parse_dims, example={"batch": (1, 8)},
    )
    example: Any = _option(
        None,
        "Inputs that a model of PyTorch, Keras, TensorFlow or scikit-learn takes, as an .npz file; "
        "for inputs that are not float32, and for models that accept few values. The model is run "
        "on them and on similar values, to convert it and to check the network.",
        python="An array or tensor, a tuple of them, or a dictionary by name of the parameter.",
        form="IN.npz", parse=option_values.parse_example, recorded=False, cached=False,
    )
    trusted: bool = _option(
        False,
        "Read a file that can run code or write files: PyTorch's .pt and .pt2, .h5, pickles, a "
        "SavedModel, lambda layers of .keras. Give it only for files whose source you trust.",
        flag="--trusted", kind="bool", recorded=False, cached=False,
    )
    sequences: Mapping[str, int | None] | None = _option(
        None,
        "Length of a sequence input, whose elements become inputs INPUT[0], INPUT[1], ...; "
        "none: omit an optional input. For a sequence output of data-dependent length, the "
        "maximum.",
        python="By input name; None omits it.",
        flag="--sequence", form="INPUT=COUNT", repeated=True,
        commands=MEASURE, parse=option_values.parse_sequences, example={"x": 3},
    )
    values: Mapping[str, int | Sequence[int]] | None = _option(
        None,
        "Value of an input that is the same in all runs, such as axes=0,2 or k=5, for operators "
        "that must know it when the network is compiled. Each run checks it.",
        python="By input name: a whole number, or a list of them.",
        flag="--value", form="INPUT=VALUE[,VALUE...]", repeated=True,
        commands=MEASURE, parse=option_values.parse_values, example={"axes": [0, 2]},
    )
    real_time: bool = _option(
        False,
        "Refuse a network whose runs may allocate, lock or call the system; runs use one thread.",
        flag="--real-time", kind="bool", commands=MEASURE,
    )
    requantize: str = _option(
        "float",
        "Requantisation: ``float`` multiplies in float32 as onnxruntime does, ``fixed-point`` "
        "uses integers only and differs by at most one step, for boards without floating point.",
        values=("float", "fixed-point"),
    )
    params: str | None = _option(
        None,
        "Location of the weights: ``embed`` in the library, ``file`` next to it as a parameter "
        "file, ``flash`` as C arrays. Default: embed; flash for a board.",
        values=("embed", "file", "flash"), group="Target",
        choose=lambda r, hosted: "embed" if hosted and r.runtime == "host" else "flash",
    )
    pools: Mapping[str, int | tuple[int, str]] | None = _option(
        None,
        "Memory pool for intermediate values; the first is preferred. The program provides the "
        "memory, or the image if a linker section is given. Default: one pool in the network's "
        "own memory.",
        python="``{name: bytes}``, or ``{name: (bytes, section)}``.",
        flag="--pool", form="NAME=BYTES[@SECTION]", repeated=True, group="Boards",
        parse=option_values.parse_pools, example={"sram": 65536},
    )
    ram: int | None = _option(
        None,
        "RAM limit for intermediate values on a board: 65536, 64KiB. If layer-by-layer "
        "execution needs more, adjacent layers are computed a few rows at a time. Default: the "
        "memory of the board or of the only pool.",
        form="BYTES", kind="int", least=1, group="Boards", common=True, unit="bytes",
        commands=MEASURE,
    )
    workspace_io: bool = _option(
        False,
        "Place inputs and outputs in the pools, too.",
        flag="--workspace-io", kind="bool", group="Boards",
    )
    place: Mapping[str, str] | None = _option(
        None,
        "Place tensors or weights by name pattern in a pool; weights are copied there at start. "
        "flash: read in place; flash@SECTION: in place, in this linker section.",
        python="``{pattern: pool}``; ``tvmgen_<name>_load()`` copies.",
        form="PATTERN=POOL", repeated=True, group="Boards",
        parse=option_values.parse_placements, example={"conv1*": "dtcm"},
    )
    max_memory: int | None = _option(
        None,
        "Limit for weights, inputs, outputs and intermediate values together; a network that "
        "needs more is rejected. Default: 4GiB.",
        form="BYTES", kind="int", least=1, group="Inspection", unit="bytes",
        recorded=False,
    )
    module_name: str = _option(
        "default",
        "Name of the network in the library; C names begin with ``tvmgen_NAME_``. Default: "
        "``default``; for several networks on the command line their file names.",
        form="NAME[,NAME...]", recorded=False, common=True,
    )
    profile: bool = _option(
        False,
        "Count cycles of each operator on a board.",
        python="The board has ``tvmrt_platform_cycles()``.",
        flag="--profile", kind="bool", group="Boards",
    )
    record: bool = _option(
        False,
        "Record hash, minimum and maximum of all tensors on a board, for tvmrt replay.",
        flag="--record", kind="bool", group="Boards",
    )
    trace_records: int | None = _option(
        None,
        "Number of records kept by --profile and --record. Default: one run.",
        form="N", kind="int", least=1, group="Boards",
    )
    cc: str | None = _option(
        None,
        "C compiler to use instead of the detected one.",
        form="COMMAND", group="Target", commands=MEASURE, recorded=False,
    )
    dump_dir: str | os.PathLike[str] | None = _option(
        None,
        "Write the graph after each pass to this folder.",
        flag="--dump", form="DIR", kind="path", group="Inspection", recorded=False,
    )
    progress: Callable[[str, int, int], None] | None = _option(
        None,
        "Called with (stage, steps done, steps in all).", flag="", recorded=False, cached=False,
    )
    # names and values of options of plug-ins, sorted; the constructor takes each by its name
    added: tuple[tuple[str, Any], ...] = ()

    # fmt: on
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the value of an option of a plug-in."""
            if name.startswith("_") or not plugin.has("options", name):
                raise AttributeError(f"there is no option {name!r} of compile")
            return self.value_of(name)

    def value_of(self, name: str) -> Any:
        """Return the value of an option, including options of plug-ins."""
        if name in _ROWS:
            return getattr(self, name)
        return dict(self.added).get(name, plugin_options()[name].default)

    def with_target(self) -> Request:
        """Return the request with a target. Raise ValueError if $TVMRT_TARGET is unknown."""
        if self.target is not None:
            return self
        return replace(self, target=default_target(self.runtime == "crt", self.levels))

    def for_here(self) -> Request:
        """Return the request with the target of this machine, for networks that run here: without a
        C compiler the kernels of a plug-in. Raise ValueError like ``with_target``."""
        if self.target is not None or self.board is not None or self.runtime == "crt":
            return self
        target, levels = local_target(self.levels, self.precision == "bf16")
        if target in (HERE, "native") and self.cc is None and not toolchains.is_preferred():
            pack = plugin.find("hooks", "kernel pack")
            target = pack.TARGET if pack is not None and pack.is_chosen() else target
        return replace(self, target=target, levels=levels)

    def with_defaults(self, hosted: bool) -> Request:
        """Return the request with defaults for a host or for a board in unset options."""
        request = self
        for name, row in all_options().items():
            if row.choose is not None and request.value_of(name) is None:
                request = replace(request, **{name: row.choose(request, hosted)})
        return request

    def options(self) -> Iterator[tuple[str, Option, Any]]:
        """Yield name, row and value of the compiler's own options, and of those options of plug-ins
        that are not at their default."""
        for name, row in _ROWS.items():
            yield name, row, getattr(self, name)
        for name, value in self.added:
            yield name, plugin_options()[name], value


_ROWS: dict[str, Option] = {
    each.name: replace(each.metadata["row"], type=str(each.type)).named(each.name)
    for each in fields(Request)
    if each.name != "added"
}
option_syntax.register(_ROWS)
_construct = Request.__init__


def _split_fields(added: tuple[tuple[str, Any], ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options to the fields of the record: options of plug-ins are one field.

    Default values are left out, so that equal requests are equal records.
    """
    own = {name: value for name, value in options.items() if name in _ROWS or name == "added"}
    more = {name: value for name, value in options.items() if name not in own}
    if more:
        rows = plugin_options()
        if unknown := [name for name in more if name not in rows]:
            raise TypeError(unknown_option_text(unknown[0], list(all_options())))
        values = {**dict(added), **more}
        changed = sorted((k, v) for k, v in values.items() if not _is(v, rows[k].default))
        own["added"] = tuple(changed)
    return own


def _is(value: Any, other: Any) -> bool:
    return value is other or (type(value) is type(other) and bool(value == other))


@wraps(_construct)
def _construct_with_plugin_options(self: Request, *values: Any, **options: Any) -> None:
    _construct(self, *values, **_split_fields(options.get("added", ()), options))


Request.__init__ = _construct_with_plugin_options  # type: ignore[method-assign]


def rows() -> dict[str, Option]:
    """Return the options of the compiler itself, by name."""
    return dict(_ROWS)


def plugin_options() -> dict[str, Option]:
    """Return the options that plug-ins add, by name; reads the plug-ins."""
    return plugin.options({*_ROWS, "added"})


def all_options() -> dict[str, Option]:
    """Return all options, those of plug-ins last."""
    return {**_ROWS, **plugin_options()}


def make(options: Mapping[str, Any]) -> Request:
    """Return a request with these options. Raise TypeError naming an unknown option, or one of
    another type than required, ValueError for a number that is too small. NumPy's numbers become
    Python's."""
    table = all_options() if options.keys() - _ROWS.keys() else _ROWS
    for name in options:
        if name not in table:
            raise TypeError(unknown_option_text(name, list(table)))
    return Request(**{name: checked(name, table[name], each) for name, each in options.items()})
