"""Packed entries of the operators, and the graph JSON for a graph executor.

The arena is one byte storage that is passed to every operator as a whole, so a graph executor uses
exactly the planned memory; inputs and outputs have their own storages. The attribute ``view`` is
the layout of a node's result in the arena, for debuggers. With several memory pools, an operator
gets those that it touches; a graph has one pool. If there are regions on other devices, ``device``
names each step's device. In programs whose steps may run concurrently, ``after`` lists the nodes
that a scheduler must wait for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Union

from tvmrt.compiler.ir.program import ARENA, CONSTANT, OUTPUT, Buffer, Program, Step
from tvmrt.compiler.ir.region import region_of
from tvmrt.compiler.ir.sizes import (
    Extent,
    Symbol,
    data_dependent_symbols,
    lower_bound,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.symbols import PACKED_SUFFIX

from ..c.formatting import GAP, any_null, bounds_check, reject_if, wrap
from ..c.packed_functions import exported_call_head
from ..c.writer import Function
from ..dependencies import dependencies
from . import symbolic_dims
from .arguments import guard_text, weight_inputs
from .tensor_placement import is_placed

SIZES_TENSOR = "tvmrt_sizes"  # tensor with the dynamic sizes of a run, and the node that writes it


Operand = Union[int, str, Buffer]  # an int is a pool index


def node_buffers(function: Function, options) -> tuple[list[Operand], list[Operand]]:
    """Return the tensors that an entry takes: (inputs, outputs)."""
    step = function.step
    inputs: list[Operand] = []
    outputs: list[Operand] = []
    for parameter in function.parameters:
        buffer = parameter.buffer
        if buffer is None:
            continue  # a size, which entries read from one tensor, or the device of another tensor
        if buffer.kind == ARENA:
            target: list = inputs if parameter.const else outputs
            item: int | Buffer = buffer.pool
        elif buffer.kind == CONSTANT:
            if options.params != "file" or not buffer.size or buffer.in_device_module:
                continue  # accessed by its C symbol, or passed as NULL
            target, item = inputs, buffer
        else:
            target, item = (inputs if parameter.const else outputs), buffer
        if item not in target:
            target.append(item)
    if step.guard is not None:
        buffer = step.guard[0].buffer
        item = buffer.pool if buffer.kind == ARENA else buffer
        if item not in inputs:
            inputs.append(item)
    if step.dims():
        inputs.append(SIZES_TENSOR)
    return inputs, outputs


def entry_operands(function: Function, options) -> list[Operand]:
    """Return the tensors that an entry takes. In a graph, whose edges they are, inputs come before
    outputs, and memory that is read and written comes twice; otherwise each comes once."""
    inputs, outputs = node_buffers(function, options)
    operands = [*inputs, *outputs]
    return operands if options.executor == "graph" else list(dict.fromkeys(operands))


def entry_symbol(function: Function) -> str:
    return f"{function.symbol}{PACKED_SUFFIX}"


def print_entries(program: Program, sources, options, arguments) -> list[str]:
    """Return the packed function that reads the sizes of a run, then one per operator."""
    lines = _sizes_entry(program, sources, options)
    for function in sources.functions:
        lines += _entry(program, function, options, arguments)
    return lines


def sizes_symbol(sources) -> str:
    """Return the entry that reads the sizes of a run from all inputs into an int32 tensor."""
    return f"{sources.prefix}_sizes_packed"


def _sizes_entry(program: Program, sources, options) -> list[str]:
    if not program.dims():
        return []
    symbol, count = sizes_symbol(sources), len(program.inputs) + 1
    head = exported_call_head(symbol, count, _refusal(symbol, count, options), "int")
    if options.firmware:
        read = [
            f"  int32_t *sizes = (int32_t *){_sizes_data(program, count - 1)};",
            *reject_if(any_null(["sizes"])),
            "  return read_sizes(args, sizes);",
        ]
    else:
        sizes = f"(int32_t *)tensor_data(args[{count - 1}])"
        read = wrap("return read_sizes", ["args", sizes], ";", 1)
    return [*head, *read, "}", ""]


def _sizes_data(program: Program, place: int) -> str:
    return f"tensor_data(args[{place}], {4 * len(program.dims())})"


def _firmware_size_lines(program: Program, function: Function, operands) -> list[str]:
    """Return lines that read the sizes an entry needs and check their bounds again, because a
    damaged graph may pass any value."""
    if SIZES_TENSOR not in operands:
        return []
    symbols = program.dims()
    types = {b: t for b, (_, t) in _boundary_types(program).items()}
    used = {p.name for p in function.parameters if p.buffer is None}
    used |= {
        s.c for b in operands if isinstance(b, Buffer) and b in types
        for s in symbols_of(types[b].shape)
    }  # fmt: skip
    indices = [i for i, s in enumerate(symbols) if s.c in used]
    data = _sizes_data(program, operands.index(SIZES_TENSOR))
    return [
        f"  const int32_t *sizes = (const int32_t *){data};",
        *reject_if(any_null(["sizes"])),
        *symbolic_dims.size_variables(symbols, indices),
        *_bounds_checks(symbols[i] for i in indices),
    ]


def _bounds_checks(symbols: Iterable[Symbol]) -> list[str]:
    """Return lines that reject sizes out of bounds."""
    return [line for s in symbols for line in bounds_check(s.c, s.low, s.high)]


def _firmware_entry_head(
    program: Program, function: Function, operands, pointers, arguments
) -> list[str]:
    """Return lines of a firmware entry before its call: sizes, guard, counts of earlier entries,
    extents of its outputs, and pointers."""
    step = function.step
    inputs_of_conditions = [access.buffer for access in step.data_dependent_dims.values()]
    inputs_of_conditions += [step.guard[0].buffer] if step.guard else []
    first = {
        _pointer_name(b.pool if b.kind == ARENA else b, arguments) for b in inputs_of_conditions
    }
    symbols = {*(program.dims() if SIZES_TENSOR in operands else ()), *step.data_dependent_dims}
    named = _known_outputs(program, operands, symbols)
    return [
        *(symbolic_dims.ON_BOARDS.begin() if named else []),
        *_firmware_size_lines(program, function, operands),
        *_checked_pointers(pointers, [name for name in pointers if name in first]),
        *_guard_lines(step, arguments),
        *symbolic_dims.print_data_dependent_dims(step.data_dependent_dims, arguments),
        *_bounds_checks(step.data_dependent_dims),
        *symbolic_dims.print_extents(named, calls=symbolic_dims.ON_BOARDS),
        *_checked_pointers(pointers, [name for name in pointers if name not in first]),
    ]


def _checked_pointers(pointers: dict[str, tuple[str, str]], names: list[str]) -> list[str]:
    """Return lines that declare some of the pointers and reject NULL."""
    lines = [_pointer_declaration(name, *pointers[name]) for name in names]
    return [*lines, *reject_if(any_null(sorted(names)))] if names else []


def _pointer_declaration(name: str, ctype: str, data: str) -> str:
    return f"  {ctype} *{name} ={GAP}({ctype} *){data};"


def _guard_lines(step: Step, arguments) -> list[str]:
    """Return lines that skip a guarded step whose condition is false."""
    if step.guard is None:
        return []
    return [f"  if (!({guard_text(step.guard, arguments)})) return 0;"]


def _boundary_types(program: Program) -> dict:
    """Return name and type of inputs and outputs by their buffers."""
    inputs = zip(program.inputs, program.input_names, program.input_types)
    return {**{b: (n, t) for b, n, t in inputs}, **symbolic_dims.output_types(program)}


def _known_outputs(program: Program, operands, available: set[Symbol]) -> dict:
    """Return name and type of dynamic outputs whose dimensions are known, by operand index."""
    types = symbolic_dims.output_types(program)
    return {
        i: types[b]
        for i, b in enumerate(operands)
        if isinstance(b, Buffer)
        and b.kind == OUTPUT
        and symbols_of(types[b][1].shape)
        and symbols_of(types[b][1].shape) <= available
    }


def _size_lines(program: Program, function: Function, operands, arguments) -> list[str]:
    """Return lines of an entry that read sizes and set the extents of the outputs it writes."""
    symbols = program.dims()
    used = {p.name for p in function.parameters if p.buffer is None and p.device_of is None}
    used |= function.offset_symbols
    named = {
        i: symbolic_dims.output_types(program)[b]
        for i, b in enumerate(operands)
        if isinstance(b, Buffer) and b.kind == OUTPUT
    }
    extents = [n for _, type in named.values() for n in type.shape]
    used |= {symbol.c for symbol in symbols_of(*extents)}
    lines = []
    if SIZES_TENSOR in operands:
        sizes = f"(const int32_t *)tensor_data(args[{operands.index(SIZES_TENSOR)}])"
        indices = [i for i, s in enumerate(symbols) if s.c in used]
        lines = [
            f"  const int32_t *sizes = {sizes};",
            *symbolic_dims.size_variables(symbols, indices),
        ]
    counts = {s: function.step.data_dependent_dims[s] for s in data_dependent_symbols(*extents)}
    return [
        *lines,
        *symbolic_dims.print_data_dependent_dims(counts, arguments),
        *symbolic_dims.print_extents(named),
    ]


def _entry(program: Program, function: Function, options, arguments) -> list[str]:
    operands = entry_operands(function, options)
    symbol, count = entry_symbol(function), len(operands)
    # int, as in the type of packed functions: int32_t is a long on some targets
    lines = exported_call_head(symbol, count, _refusal(symbol, count, options), "int")
    pointers = _pointers(program, function, operands, options, arguments)
    if options.firmware and options.executor == "graph":
        lines += _firmware_entry_head(program, function, operands, pointers, arguments)
    else:
        lines += [_pointer_declaration(name, *pointers[name]) for name in pointers]
        for buffer in dict.fromkeys(p.device_of for p in function.parameters if p.device_of):
            device = f"tensor_device(args[{operands.index(buffer)}])"
            lines.append(f"  const DLDevice {arguments.devices[buffer]} = {device};")
        if function.step.symbols():
            lines += _size_lines(program, function, operands, arguments)
        lines += _guard_lines(function.step, arguments)
    passed = arguments.of_call(function)
    return [*lines, *wrap(f"return {function.symbol}", passed, ";", 1), "}", ""]


def _pointer_name(item: int | Buffer, arguments) -> str:
    """Return the C name of an operand's first byte in an entry."""
    if isinstance(item, int):
        return arguments.pools[item]
    return arguments.weight(item) if item.kind == CONSTANT else arguments.names[item]


def _pointers(
    program: Program, function: Function, operands, options, arguments
) -> dict[str, tuple[str, str]]:
    """Return the C types and expressions of an entry's pointers, by their local names."""
    symbols = {
        *(program.dims() if SIZES_TENSOR in operands else ()),
        *function.step.data_dependent_dims,
    }
    pointers: dict[str, tuple[str, str]] = {}
    for i, item in reversed(list(enumerate(operands))):
        # outputs come first, so that memory that is read and written keeps its non-const name
        if item == SIZES_TENSOR:
            continue
        if isinstance(item, int):
            ctype = "uint8_t"
        else:
            qualifier = "" if item.kind == OUTPUT else "const "
            ctype = f"{qualifier}{item.dtype.c}"
        data = _data_text(program, item, i, options, symbols)
        pointers.setdefault(_pointer_name(item, arguments), (ctype, data))
    return pointers


def _data_text(program: Program, item, index: int, options, available: set[Symbol]) -> str:
    """Return the address of an argument's elements; graph entries in firmware check its size."""
    if not (options.firmware and options.executor == "graph"):
        return f"tensor_data(args[{index}])"
    if isinstance(item, int):
        return f"tensor_data(args[{index}], {program.arena_bytes})"
    _, type = _boundary_types(program).get(item, ("", None))
    if type is None or not isinstance(type.size, Extent):
        return f"tensor_data(args[{index}], {item.nbytes})"
    if not symbols_of(type.size) <= available:  # the step needs no more than the minimum
        return f"tensor_data(args[{index}], {type.dtype.nbytes(lower_bound(type.size))})"
    return f"tensor_data(args[{index}], (uint32_t)({symbolic_dims.nbytes_expression(type)}))"


def _refusal(symbol: str, count: int, options) -> list[str]:
    if options.firmware:
        return ["    return kTvmErrorFunctionCallNumArguments;"]
    return [f'    TVMAPISetLastError("{symbol}: expected {count} arguments");', "    return -1;"]


def graph_json(program: Program, sources, options) -> str:
    """Return the graph JSON with which a graph executor runs the entries."""
    graph = _Graph(program, sources, options).build()
    if options.firmware:  # compact: it lies in flash
        return json.dumps(graph, separators=(",", ":"))
    return json.dumps(graph, indent=2)


class _Graph:
    def __init__(self, program: Program, sources, options) -> None:
        self.program = program
        self.sources = sources
        self.options = options
        self.nodes: list[dict] = []
        self.entries: list[tuple[list[int], str, int]] = []  # shape, type, storage
        self.on_device: dict[int, int] = {}  # device type by entry; CPU if missing
        self.row_ptr = [0]
        self.storage: dict[object, int] = {}
        self.latest: dict[object, list[int]] = {}
        self.has_regions = False
        self.waits: list[list[int]] = []  # dependencies per step, if steps may run concurrently
        self.first_operator = 0
        ports = [*zip(program.inputs, program.input_types)]
        ports += zip(program.outputs, program.output_types)
        self.shapes = {buffer: [upper_bound(n) for n in type.shape] for buffer, type in ports}

    def build(self) -> dict:
        program = self.program
        for buffer in [*program.inputs, *weight_inputs(self.sources, self.options)]:
            self._add({"op": "null", "name": buffer.name, "inputs": []}, [buffer])
        arg_nodes = list(range(len(self.nodes)))
        if program.dims():  # read before all nodes that need them
            self._call(SIZES_TENSOR, sizes_symbol(self.sources), program.inputs, [SIZES_TENSOR], {})
        self.first_operator = len(self.nodes)
        self.has_regions = any(region_of(s.group.root) is not None for s in program.steps)
        if self.has_regions and program.concurrent:
            self.waits = dependencies(program)
        for function in self.sources.functions:
            self._operator(function)
        heads = [self.latest[b] for b in program.outputs]
        devices = [self.on_device.get(i, 1) for i in range(len(self.entries))]
        graph = {
            "nodes": self.nodes,
            "arg_nodes": arg_nodes,
            "heads": heads,
            "attrs": {
                "dltype": ["list_str", [e[1] for e in self.entries]],
                "storage_id": ["list_int", [e[2] for e in self.entries]],
                "shape": ["list_shape", [e[0] for e in self.entries]],
                "device_index": ["list_int", devices],
            },
            "node_row_ptr": self.row_ptr,
        }
        metadata = {} if self.options.firmware else self._metadata(heads)
        # last, because other parsers of graphs stop there
        return {**graph, "metadata": metadata} if metadata else graph

    def _metadata(self, heads: Sequence[list[int]]) -> dict[str, Any]:
        """Return metadata for executors: output names, as a node has one name for all its outputs,
        and the prefix of the library's functions for sizes, placement, state and needs of runs."""
        program: Program = self.program
        metadata: dict[str, Any] = {}
        if [self.nodes[head[0]]["name"] for head in heads] != program.output_names:
            metadata["output_names"] = list(program.output_names)
        own_functions = (
            program.has_dynamic_dims(), program.states, program.thread_scratch_bytes,
            self.options.real_time, is_placed(program),
        )  # fmt: skip
        if any(own_functions):
            metadata["network"] = self.sources.prefix
        return metadata

    def _storage(self, key: object) -> int:
        return self.storage.setdefault(key, len(self.storage))

    def _add(self, node: dict, results: Iterable[Operand]) -> None:
        for i, item in enumerate(results):
            self.latest[item] = [len(self.nodes), i, 0]
            self.entries.append((*self._type(item), self._storage(item)))
        self.nodes.append(node)
        self.row_ptr.append(len(self.entries))

    def _type(self, item: Operand) -> tuple[list[int], str]:
        """Return the shape and the type of an operand."""
        if item == SIZES_TENSOR:
            return [len(self.program.dims())], "int32"
        if isinstance(item, int):
            return [self._pool_bytes(item)], "uint8"
        return self.shapes.get(item, [item.size]), item.dtype.text

    def _call(self, name: str, entry: str, inputs, outputs, attrs: dict[str, str]) -> None:
        """Add the node that calls an entry."""
        # an arena is written before it is read, so such inputs always have an edge
        edges = [self.latest[item] for item in inputs]
        counts = {"num_inputs": str(len(edges)), "num_outputs": str(len(outputs))}
        attrs = {"func_name": entry, **counts, "flatten_data": "0", **attrs}
        self._add({"op": "tvm_op", "name": name, "inputs": edges, "attrs": attrs}, outputs)

    def _operator(self, function: Function) -> None:
        inputs, outputs = node_buffers(function, self.options)
        step = function.step
        name = step.name
        for item in outputs:
            if isinstance(item, Buffer):
                name = item.name
        attrs: dict[str, str] = {}
        write = step.writes[0]
        moves = symbols_of(write.shape, write.at.strides, write.at.offset)
        unseen = self.options.firmware or moves or write.dtype.is_packed
        if write.buffer.kind == ARENA and not unseen:
            offset = write.buffer.address + write.at.offset * write.dtype.itemsize
            kind = [write.dtype.code, write.dtype.bits]
            attrs["view"] = json.dumps([offset, *kind, *write.shape, *write.at.strides])
        if self.has_regions and not self.options.firmware:
            attrs.update(self._schedule(step))
        self._call(name, entry_symbol(function), inputs, outputs, attrs)

    def _pool_bytes(self, number: int) -> int:
        """Return the size of a pool; the entry of a device pool is marked."""
        pool = self.program.pools[number]
        if pool.memory is None:
            return self.program.arena_bytes
        self.on_device[len(self.entries)] = pool.memory.type
        return pool.used_bytes

    def _schedule(self, step: Step) -> dict[str, str]:
        """Return attributes for a scheduler: device, and the nodes to wait for."""
        region = region_of(step.group.root)
        attrs = {"device": "cpu" if region is None else region.device}
        if not self.waits:
            return attrs
        before = self.waits[len(self.nodes) - self.first_operator]
        after = [self.first_operator + number for number in before]
        if step.dims():
            after.append(self.latest[SIZES_TENSOR][0])
        return {**attrs, "after": json.dumps(after)}
