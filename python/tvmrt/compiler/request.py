"""Options of the compiler: each once, with its default, values and help text.

The command line, the docstring of ``tvmrt.compile``, the reference pages and the checks are
generated from these rows; ``option_rules.py`` has the valid combinations. This module imports
nothing slow, because the help of commands needs it.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from tvmrt import plugin
from tvmrt.compiler.codegen.mcu_families import MCU_FAMILIES
from tvmrt.compiler.codegen.target import CROSS, FIRMWARE, LEVELS, default_target, local_target
from tvmrt.error import suggestion
from tvmrt.option import Option, OptionDescription

if TYPE_CHECKING:
    import os

    from tvmrt.compiler.devices import Device


# ruff: noqa: RUF009
# _option() creates a field and is called once for each option

INDENT = "    "
_Function = TypeVar("_Function", bound=Callable[..., Any])
OPTIONS = "{options}"  # placeholder in a docstring of ``documented``


def _option(default: Any, text: str, **row: Any) -> Any:
    return field(default=default, metadata={"row": OptionDescription(text, **row)})


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
        values=("graph", "aot"), flag="--executor", group="Target",
    )
    interface_api: str = _option(
        "packed",
        "Interface of a network for a board: ``packed`` functions of tensors, or a plain ``c`` "
        "function with structs of pointers and a header.",
        values=("packed", "c"), flag="--interface-api", group="Boards",
    )
    unpacked_api: bool | None = _option(
        None,
        "Call operators with plain pointers instead of packed functions. Default: on for a "
        "board with executor aot.",
        flag="--unpacked-api/--no-unpacked-api", kind="bool", group="Boards",
    )
    abi: str = _option(
        "packed",
        "ABI of a library for hosts: ``packed`` functions, or ``tvm-ffi``, which adds a "
        "function of input and output tensors for tvm_ffi, torch and JAX that needs no runtime. "
        "tvm-ffi implies executor aot.",
        values=("packed", "tvm-ffi"), flag="--abi", group="Target",
    )
    runtime: str | None = _option(
        None,
        "Runtime on the target: ``host`` needs an operating system, ``crt`` needs none and uses "
        "no heap and no threads. Default: host; crt for a board.",
        values=("host", "crt"), flag="--runtime", group="Target", common=True,
    )
    target: str | None = _option(
        None,
        "Processor to compile for. Default: the environment variable TVMRT_TARGET. Without it, "
        "this machine's family on Linux (x86-64, aarch64-linux or armv7-linux); native on other "
        "systems, for runtime crt, and in commands that run the network at once.",
        table={
            "native": "this machine only",
            "host": "all machines of this machine's family, without vector extensions",
            ", ".join(LEVELS): "code for several ISA levels, selected at load time",
            ", ".join(name for name in CROSS if name not in LEVELS): "by a cross compiler",
            ", ".join(FIRMWARE): "boards without an operating system",
        },
        flag="--target", form="NAME", group="Target", common=True,
    )
    levels: Sequence[str] = _option(
        (),
        "ISA levels to generate code for. Default: "
        f"all but {', '.join(t.name for t in LEVELS['x86-64'] if t.opt_in)}; the bfloat16 "
        "levels only for precision bf16, v4amx also for int8 layers.",
        table={name: ", ".join(t.name for t in LEVELS[name]) for name in LEVELS},
        flag="--levels", form="NAME[,NAME...]", repeated=True, group="Target",
    )
    board: str | None = _option(
        None,
        "A microcontroller family instead of a target; sets the processor and the memory "
        f"limits: {', '.join(MCU_FAMILIES)}.",
        flag="--board", form="NAME", group="Boards", common=True,
    )
    devices: Sequence[str | Device] = _option(
        (),
        "Devices that may compute parts of the network, in order of preference. The CPU "
        "computes the rest.",
        python="Names or ``tvmrt.devices.Device``; ``nodes`` of the summary has the reason for "
            "nodes without a device.",
        flag="--device", form="NAME[,NAME...]", repeated=True, group="Devices", common=True,
    )
    require_device: Sequence[str] = _option(
        (),
        "Fail unless this device takes a node, or every node of an operator: npu:Conv.",
        flag="--require-device", form="NAME[:OPERATOR][,...]", repeated=True, group="Devices",
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
        values=("sync", "async"), flag="--schedule", group="Devices",
    )
    mixed_precision: str | None = _option(
        None,
        "Reduced precision for devices that support it; inputs and outputs of the network keep "
        "their types.",
        values=("bf16", "fp16", "int8"), flag="--mixed-precision", group="Devices",
    )
    precision: str = _option(
        "float32",
        "Precision of convolutions and matmuls on the CPU: ``bf16`` rounds both operands to "
        "bfloat16 and accumulates in float32. Weights need half the memory. Faster with AMX, "
        "AVX512_BF16 or BFMMLA; as fast as float32 elsewhere. Depthwise layers and recurrent "
        "cells stay in float32.",
        python="``reduced`` of the summary lists the layers.",
        values=("float32", "bf16"), flag="--precision", common=True,
    )
    weights: str | None = _option(
        None,
        "Quantise weights of matmuls and embedding tables to 8 or 4 bits, in blocks with a "
        "scale each. Decoders, which are limited by memory bandwidth, become faster. Results "
        "are those of the rounded weights.",
        python="``narrowed`` of the summary has the error of each weight.",
        values=("int8", "int4"), flag="--weights", common=True,
    )
    winograd: bool | None = _option(
        None,
        "Compute 3x3 convolutions of stride 1 with Winograd where it is faster. Their weights "
        "become 1.8 or 4 times as large; the relative error is about 1e-6. Default: float32 "
        "networks on hosts, until the weights grow by a quarter or 4 MiB.",
        python="``winograd`` of the summary has the error of each layer.",
        flag="--winograd/--no-winograd", kind="bool",
    )
    row_chains: bool | None = _option(
        None,
        "Compute adjacent float32 convolutions and pooling a few rows at a time (row-wise "
        "fusion), so that intermediate results stay in the cache. Results are the same. "
        "Default: where it is faster on hosts; on boards as ``ram`` requires.",
        flag="--row-chains/--no-row-chains", kind="bool",
    )
    max_error: float | None = _option(
        None,
        "Maximum relative error of a layer. Layers with a larger error stay in float32, or are "
        "computed by direct convolution. The error depends on the option that is given with it.",
        table={
            "mixed-precision, precision": "largest difference relative to the largest value, on "
                "the calibration inputs",
            "weights, winograd": "RMS of the difference relative to the RMS of the values",
        },
        python="UnsupportedError is raised if no region can be reduced.",
        flag="--max-error", form="X", kind="float", group="Devices",
    )
    calibration: Sequence[Mapping[str, Any]] = _option(
        (),
        "Inputs on which the error is measured.",
        python="One mapping of arrays by name for each sample.",
        flag="--calibration", form="IN.npz", kind="path", repeated=True, group="Devices",
    )
    device_options: Mapping[str, Mapping[str, Any]] | None = _option(
        None,
        "Options of devices; see the page of the device.",
        python="Mappings by name of the device.",
        flag="--device-option", form="NAME:KEY=VALUE", repeated=True, group="Devices",
    )
    operators: Sequence[Any] = _option(
        (),
        "Python file or shared library with custom operators. Those of installed packages are "
        "found automatically.",
        python="``tvmrt.custom`` operators and paths.",
        flag="--operators", form="FILE", kind="path", repeated=True,
    )
    shapes: Mapping[str, Sequence[int | str]] | None = _option(
        None,
        "Shape of an input, if the file has a dynamic or another shape. A dimension may stay "
        "dynamic up to a bound: N<=8.",
        python="Shapes by input name.",
        flag="--shape", form="INPUT=DIM,...", repeated=True, common=True,
    )
    dims: Mapping[str, int | str | tuple[int, int]] | None = _option(
        None,
        "Bounds of a dynamic dimension by its name in the file: batch=1..8, seq<=128 (from 1), "
        "or total=past+seq. Memory is planned for the upper bound. Default: bounds inferred "
        "from the use of the dimension and printed as a note; boards need declared bounds.",
        python="By name: the maximum, (minimum, maximum), or an expression of other dimensions "
        "as text; an axis without a name is called by input and index, such as ``x_2``.",
        flag="--dim", form="NAME=LOW..HIGH", repeated=True, common=True,
    )
    sequences: Mapping[str, int | None] | None = _option(
        None,
        "Length of a sequence input, whose elements become inputs INPUT[0], INPUT[1], ...; "
        "none: omit an optional input. For a sequence output of data-dependent length, the "
        "maximum.",
        python="By input name; None omits it.",
        flag="--sequence", form="INPUT=COUNT", repeated=True,
    )
    requantize: str = _option(
        "float",
        "Requantisation: ``float`` multiplies in float32 as onnxruntime does, ``fixed-point`` "
        "uses integers only and differs by at most one step, for boards without floating point.",
        values=("float", "fixed-point"), flag="--requantize",
    )
    params: str | None = _option(
        None,
        "Location of the weights: ``embed`` in the library, ``file`` next to it as a parameter "
        "file, ``flash`` as C arrays. Default: embed; flash for a board.",
        values=("embed", "file", "flash"), flag="--params", group="Target",
    )
    pools: Mapping[str, int | tuple[int, str]] | None = _option(
        None,
        "Memory pool for intermediate values; the first is preferred. The program provides the "
        "memory, or the image if a linker section is given. Default: one pool in the network's "
        "own memory.",
        python="``{name: bytes}``, or ``{name: (bytes, section)}``.",
        flag="--pool", form="NAME=BYTES[@SECTION]", repeated=True, group="Boards",
    )
    ram: int | None = _option(
        None,
        "RAM limit for intermediate values on a board. If layer-by-layer execution needs more, "
        "adjacent layers are computed a few rows at a time. Default: the memory of the board or "
        "of the only pool.",
        flag="--ram", form="BYTES", kind="int", least=1, group="Boards", common=True, unit="bytes",
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
        flag="--place", form="PATTERN=POOL", repeated=True, group="Boards",
    )
    max_memory: int | None = _option(
        None,
        "Limit in bytes for weights, inputs, outputs and intermediate values together; a "
        "network that needs more is rejected. Default: 4294967296.",
        flag="--max-memory", form="BYTES", kind="int", least=1, group="Inspection", unit="bytes",
    )
    module_name: str = _option(
        "default",
        "Name of the network in the library, and part of its C names.",
        python="C names begin with ``tvmgen_<name>_``.",
        flag="--module-name", form="NAME",
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
        flag="--trace-records", form="N", kind="int", least=1, group="Boards",
    )
    cc: str | None = _option(
        None,
        "C compiler to use instead of the detected one.",
        flag="--cc", form="COMMAND", group="Target",
    )
    dump_dir: str | os.PathLike[str] | None = _option(
        None,
        "Write the graph after each pass to this folder.",
        flag="--dump", form="DIR", kind="path", group="Inspection",
    )
    progress: Callable[[str, int, int], None] | None = _option(
        None, "Called with (stage, steps done, steps in all)."
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
        if name in _OWN:
            return getattr(self, name)
        return dict(self.added).get(name, plugin_options()[name].default)

    def with_target(self) -> Request:
        """Return the request with a target. Raise ValueError if $TVMRT_TARGET is unknown."""
        if self.target is not None:
            return self
        return replace(self, target=default_target(self.runtime == "crt", self.levels))

    def for_here(self) -> Request:
        """Return the request with the target of this machine, for networks that run here. Raise
        ValueError like ``with_target``."""
        if self.target is not None or self.board is not None or self.runtime == "crt":
            return self
        target, levels = local_target(self.levels, self.precision == "bf16")
        return replace(self, target=target, levels=levels)

    def with_defaults(self, hosted: bool) -> Request:
        """Return the request with defaults for a host or for a board in unset options."""
        graph = hosted and self.abi == "packed"
        executor = self.executor or ("graph" if graph else "aot")
        runtime = self.runtime or ("host" if hosted else "crt")
        params = self.params or ("embed" if hosted and runtime == "host" else "flash")
        plain = self.unpacked_api
        if plain is None:
            plain = runtime == "crt" and executor == "aot"
        chosen = {
            name: row.choose(self, hosted)
            for name, row in plugin_options().items()
            if row.choose is not None and self.value_of(name) is None
        }
        return replace(
            self, executor=executor, runtime=runtime, params=params, unpacked_api=plain,
            **chosen,
        )  # fmt: skip


_OWN = {option.name: option for option in fields(Request) if option.name != "added"}
_construct = Request.__init__


def _split_fields(added: tuple[tuple[str, Any], ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options to the fields of the record: options of plug-ins are one field.

    Default values are left out, so that equal requests are equal records.
    """
    own = {name: value for name, value in options.items() if name in _OWN or name == "added"}
    more = {name: value for name, value in options.items() if name not in own}
    if more:
        rows = plugin_options()
        if unknown := [name for name in more if name not in rows]:
            raise TypeError(_unknown(unknown[0]))
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


def rows() -> dict[str, tuple[Any, OptionDescription]]:
    """Return default and help text of every option of the compiler itself, by name."""
    return {name: (option.default, option.metadata["row"]) for name, option in _OWN.items()}


def plugin_options() -> dict[str, Option]:
    """Return the options that plug-ins add, by name; reads the plug-ins."""
    return plugin.options({*_OWN, "added"})


def all_options() -> dict[str, tuple[Any, OptionDescription, str]]:
    """Return default, help text and type of every option, those of plug-ins last."""
    own = {name: (default, row, str(_OWN[name].type)) for name, (default, row) in rows().items()}
    added = {name: (row.default, row, row.type) for name, row in plugin_options().items()}
    return {**own, **added}


def make(options: Mapping[str, Any]) -> Request:
    """Return a request with these options. Raise TypeError naming an unknown option, or one that
    is not a list, dict, number or bool as required, ValueError for a number that is too small."""
    table = all_options() if options.keys() - _OWN.keys() else _OWN
    for name, value in options.items():
        if name not in table:
            raise TypeError(_unknown(name))
        if name in _OWN:
            kind, row = str(_OWN[name].type), _OWN[name].metadata["row"]
        else:
            _, row, kind = table[name]
        _check_kind(name, kind, value)
        for each in row.each(value):
            if each is not None:
                _check_value(name, row, each)
    return Request(**options)


def _unknown(name: str) -> str:
    """Return the error text for an unknown option."""
    reason = plugin.why_missing("options", name)
    hint = f": {reason}" if reason else f"; {suggestion(name, list(all_options()))}"
    return f"there is no option {name!r} of compile{hint}"


def _check_value(name: str, row: OptionDescription, value: Any) -> None:
    """Raise TypeError for a value that is not a bool or an integer as required: otherwise any text
    would count as true."""
    if row.kind == "bool" and value not in (True, False):
        raise TypeError(f"{name}: give True or False, not {value!r}")
    if row.kind != "int":
        return
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: give a whole number, not {value!r}")
    if row.least is not None and value < row.least:
        raise ValueError(f"{name}: give a number of at least {row.least}, not {value}")


def _check_kind(name: str, kind: str, value: Any) -> None:
    """Raise TypeError for text instead of a list, which would be read letter by letter, and for
    other types than mappings. Options of any type accept a single value."""
    if kind.startswith("Sequence") and kind != "Sequence[Any]" and isinstance(value, str):
        raise TypeError(f"{name}: give a list, [{value!r}]")
    if kind.startswith("Mapping") and value is not None and not hasattr(value, "items"):
        raise TypeError(f"{name}: give a dict of names and values, not {value!r}")


def documented(function: _Function) -> _Function:
    """Decorate a function: fill ``OPTIONS`` in its docstring, and add options to its signature."""
    own = inspect.signature(function)
    parameters = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=option.type,
        )
        for option in _OWN.values()
    ]
    shown: Any = function
    shown.__signature__ = own.replace(parameters=[*parameters, *options])
    function.__doc__ = inspect.cleandoc(function.__doc__ or "").replace(OPTIONS, entries())
    return function


def entries(table: Mapping[str, Any] | None = None) -> str:
    """Return options as entries of a docstring's parameters: ``table``, such as ``all_options()``,
    or the compiler's own options and a reference to those of plug-ins, which are not read here."""
    lines = []
    for name, (_, row, *_more) in (table or rows()).items():
        meanings = [f"``{key}``: {text}." for key, text in (row.table or {}).items()]
        text = " ".join(filter(None, (row.text, *meanings, row.python)))
        lines += [name, textwrap.fill(text, 96, initial_indent=INDENT, subsequent_indent=INDENT)]
    if table is None:
        lines += ["options", f"{INDENT}Those of plug-ins; ``tvmrt compile --help`` has them, too."]
    return "\n".join(lines)
