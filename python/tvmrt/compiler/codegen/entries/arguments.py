"""Arguments that callers pass to operator functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmrt.compiler.ir.program import ARENA, INPUT, OUTPUT, Buffer, Program

from ..c.formatting import call
from ..c.naming import SYMBOL_LENGTH, Namer, local_name
from ..c.writer import Function, Parameter
from ..options import Options, Sources
from . import device_hooks

# Other names in functions that call operators: parameters, variables and helpers.
_LOCALS = (
    "args", "begin", "call", "cycles", "devices", "dims", "inputs", "misplaced", "num_args",
    "operands", "out_ret_tcode", "out_ret_value", "outputs", "pools", "rc", "resource_handle",
    "result", "sizes", "state", "tensor", "tensor_data", "tensor_device", "tickets", "type_codes",
    "value", "values", "wait_for", "workspace_pools",
)  # fmt: skip


class Arguments:
    """C expressions for the arguments of operator functions, by buffer kind.

    Offsets in the workspace and in the weights get names, which ``print_offsets()`` prints.
    """

    def __init__(self, program: Program, sources: Sources, options: Options) -> None:
        self.prefix = sources.prefix
        self.options = options
        self.names: dict[Buffer, str] = {}
        self.tickets = [step for step in program.steps if step.deferred]
        self._offset_names: dict[Buffer, str] = {}
        self._stored_names: dict[Buffer, str] = {}  # offsets in a blob of weights
        self._run_plan = program.run_plan
        self._sources = sources
        self._weights = sources.weight_buffers
        self._arena = [*program.arena_buffers(), *sources.resident]
        namer = Namer(SYMBOL_LENGTH)
        contexts = map(device_hooks.variable, device_hooks.hooked_devices(program))
        sizes = [symbol.c for symbol in program.dims()]
        counts = ["counts"] if program.data_dependent_dims else []
        for word in (*_LOCALS, *contexts, *sizes, *counts):
            namer.take(word)
        # parameter names of the pools, by pool index
        self.pools = [namer.take(p.name) for p in program.pools] or [namer.take("workspace")]
        if options.weights_in_blob:
            self._stored_names = {b: namer.take(b.name, "w_") for b in self._weights}
        elif options.params == "file":
            for buffer in self._weights:
                self._offset_names[buffer] = namer.take(buffer.name, "w_")
        for buffer in [*program.inputs, *program.outputs]:
            self.names[buffer] = namer.take(local_name(buffer.name))
        # DLDevice parameters of tensors that may lie on a device
        self.devices = {
            b: namer.take(f"{name}_device") for b, name in self.names.items() if b.memory
        }
        for buffer in self._arena:
            self._offset_names[buffer] = namer.take(buffer.name, "at_")
        if options.params == "embed":
            for buffer in self._weights:
                self._offset_names[buffer] = namer.take(buffer.name, "w_")

    def offset_name(self, buffer: Buffer) -> str:
        """Return the name of a buffer's offset in its pool."""
        return self._offset_names[buffer]

    def named_offsets(self) -> list[tuple[str, Buffer]]:
        """Return the names of offsets in pools, with their buffers."""
        return [(self._offset_names[b], b) for b in self._arena]

    def print_offsets(self) -> list[str]:
        """Return C lines that define the offsets."""
        lines = []
        for number, name in enumerate(self.pools):
            inside = [b for b in self._arena if b.pool == number]
            if self._run_plan is not None:
                words = {self._offset_names[b]: self._run_plan.word_of(b) for b in inside}
                lines += _enum(f"Words of {name} with the buffers' addresses.", words)
            else:
                lines += self._enum(f"Byte offsets into {name}.", inside)
        if self.options.params == "embed":
            lines += self._enum(f"Byte offsets into {self.prefix}_weights.", self._weights)
        stored = {n: self._sources.weight_offsets[b] for b, n in self._stored_names.items()}
        return lines + _enum(f"Byte offsets into {self.prefix}_weights.", stored)

    def _enum(self, comment: str, buffers: Sequence[Buffer]) -> list[str]:
        return _enum(comment, {self._offset_names[b]: b.address for b in buffers})

    def stored_weight(self, buffer: Buffer) -> str:
        """Return the address of a constant in flash, also of one that is copied to a pool."""
        if self.options.weights_in_blob:
            return f"{self.prefix}_weights + {self._stored_names[buffer]}"
        return self._sources.symbol_of(buffer)

    def expression(self, parameter: Parameter) -> str:
        buffer = parameter.buffer
        if parameter.ticket is not None:
            return f"&tickets[{self.tickets.index(parameter.ticket)}]"
        if parameter.device_of is not None:
            return self.devices[parameter.device_of]
        if buffer is None:
            return parameter.name
        if buffer.kind in (INPUT, OUTPUT):
            text = self.names[buffer]
        elif buffer.kind == ARENA:
            text = self._in_arena(buffer, parameter.const)
        else:
            text = self.weight(buffer)
        return f"{text} + {parameter.offset}" if parameter.offset != 0 else text

    def of_call(self, function: Function) -> list[str]:
        """Return the argument expressions of a call."""
        return [self.expression(p) for p in function.parameters]

    def _in_arena(self, buffer: Buffer, const: bool) -> str:
        pool = self.pools[buffer.pool]
        if self._run_plan is None:
            return self._at(pool, buffer, const)
        location = call("tvmrt_plan_pointer", pool, self._offset_names[buffer])
        return f"({'const ' if const else ''}{buffer.dtype.c} *){location}"

    def _at(self, base: str, buffer: Buffer, const: bool) -> str:
        location = f"{base} + {self._offset_names[buffer]}"
        if buffer.dtype.c == "uint8_t":
            return location
        return f"({'const ' if const else ''}{buffer.dtype.c} *)({location})"

    def weight(self, buffer: Buffer) -> str:
        if not buffer.size:
            return "NULL"
        if buffer in self._sources.device_constants:
            return f"(const {buffer.dtype.c} *){self._sources.symbol_of(buffer)}"
        if self.options.params == "flash":
            return self._sources.symbol_of(buffer)
        if self.options.weights_in_blob:
            return f"(const {buffer.dtype.c} *)({self.stored_weight(buffer)})"
        if self.options.params == "file":
            return self._offset_names[buffer]
        return self._at(f"{self.prefix}_weights", buffer, True)


def _enum(comment: str, offsets: Mapping[str, int]) -> list[str]:
    """Return C lines that define offsets by name."""
    if not offsets:
        return []
    if max(offsets.values()) > 0x7FFFFFFF:
        rows = [f"#define {name} UINT64_C({offset})" for name, offset in offsets.items()]
        return [f"/* {comment} */", *rows, ""]
    rows = [f"  {name} = {offset}," for name, offset in offsets.items()]
    return [f"/* {comment} */", "enum {", *rows, "};", ""]


def guard_text(guard, arguments) -> str:
    """Return the C condition under which a guarded step runs."""
    access, expected = guard
    pointer = arguments.expression(Parameter("guard", access.buffer, access.at.offset))
    return f"*({pointer}) {'!=' if expected else '=='} 0"


def weight_inputs(sources: Sources, options: Options) -> list[Buffer]:
    """Return constants that the caller passes as additional inputs, named after their layers."""
    passed = options.params == "file" and not options.weights_in_blob
    return sources.weight_buffers if passed else []
