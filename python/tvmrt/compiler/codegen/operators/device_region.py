"""Regions on other devices: calls of the device's C function or of its module's function."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import (
    KERNEL,
    PACKED_PARAMETERS,
    CSource,
    Needs,
    Region,
    Value,
    dtype_of,
    get_op,
)
from tvmrt.compiler.ir.program import CHANNELS_LAST, DENSE, Access, Group, Step, channels_last_order
from tvmrt.compiler.ir.region import CHANNELS_LAST_LAYOUT, PACKED
from tvmrt.compiler.ir.sizes import Symbol
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from ..c.formatting import wrap
from ..c.writer import FunctionWriter, Parameter
from ..device_placement import is_bound_per_run
from ..lowering import Lowering, ResultLayout, Scratch, has_lowering, lowering_for, lowers


@lowers("region")
class RegionLowering(Lowering):
    """Region call; operands are dense, or channels-last if the device requires that."""

    in_memory = ()

    @property
    def region(self) -> Region:
        return self.node.attrs["region"]

    def _demand(self, index: int) -> str | tuple[int, ...]:
        """Return the demand on a tensor, numbered over inputs, then outputs. C functions with
        pointers need contiguous layouts; modules receive strides."""
        rank = [*self.node.inputs, *self.node.outputs][index].type.rank
        if self._is_source():
            last = self._requirements().is_last(index) and rank > 2
            return channels_last_order(rank) if last else DENSE
        strided = self.region.layout == CHANNELS_LAST_LAYOUT
        return CHANNELS_LAST if strided and rank > 2 else DENSE

    def _is_source(self) -> bool:
        return isinstance(self.region.code, CSource)

    def _requirements(self) -> Needs:
        """Return what a C function takes in addition to tensors."""
        code = self.region.code
        if not isinstance(code, CSource) or code.entry == PACKED:
            return Needs()
        return code.needs.get(self.region.symbol) or Needs()

    def scratch(self, step: Step) -> Scratch:
        return Scratch(self._requirements().scratch_bytes)

    def demand(self, value: Value) -> str | tuple[int, ...]:
        return self._demand(self.node.inputs.index(value))

    def result_layout(self, index: int, accesses: dict[Value, Access]) -> ResultLayout:
        demand = self._demand(len(self.node.inputs) + index)
        rank = self.node.outputs[index].type.rank
        return ResultLayout(None if demand == DENSE else channels_last_order(rank), demand)

    def macs(self) -> int:
        nodes = self.region.stands_for or self.region.nodes
        heavy = [n for n in nodes if get_op(n.op).kind == KERNEL and has_lowering(n.op)]
        groups = [Group(node) for node in heavy]
        return sum(lowering_for(g.root.op)(g, self.target).macs() for g in groups)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        flag = f.writes[-1] if self.region.reports_failure else None
        results = f.writes[: len(self.region.outputs)]
        accesses = [*step.reads, *step.writes[: len(results)]]
        operands = [*f.reads, *results]
        code = self.region.code
        if not self._is_source():
            call = self._module_call(f, operands, accesses)
        elif code.entry == PACKED:
            call = self._packed_call(f, operands, accesses)
        else:
            call = self._plain_call(f, operands)
        if flag is None:
            f.result(call)
        else:
            f.line(f"*{flag.name} = {call} != 0;")

    def _plain_call(self, f: FunctionWriter, operands: list[Parameter]) -> str:
        symbol, requirements = self.region.symbol, self._requirements()
        declared = [p.declare().aliased() for p in operands]
        passed = [p.name for p in operands]
        for name, array in requirements.constants.items():
            passed.append(f.constant(name, array))
            declared.append(f"const {dtype_of(array.dtype).c} *{passed[-1]}")
        if requirements.scratch_bytes:
            passed.append(f.scratch())
            declared.append(f"uint8_t *{passed[-1]}")
        f.define("\n".join(wrap(f"int32_t {symbol}", declared or ["void"], ";")))
        return f"{symbol}({', '.join(passed)})"

    def _packed_call(self, f: FunctionWriter, operands, accesses) -> str:
        symbol = self.region.symbol
        f.define("\n".join(["TVM_DLL", *wrap(f"int32_t {symbol}", PACKED_PARAMETERS, ";")]))
        _arguments(f, operands, accesses)
        return f"{symbol}(args, type_codes, {len(operands)}, &result, &result_code, NULL)"

    def _module_call(self, f: FunctionWriter, operands, accesses) -> str:
        f.define("TVM_DLL extern void *__tvm_module_ctx;")
        _arguments(f, operands, accesses, self.region.sizes)
        f.line("TVMFunctionHandle run;")
        ticket = f.ticket() if f.step.deferred else None
        name = f"{self.region.symbol}__start" if ticket else self.region.symbol
        lookup = f'TVMBackendGetFuncFromEnv(__tvm_module_ctx, "{name}", &run)'
        f.line(f"int32_t rc = {lookup};")
        count = len(operands) + bool(self.region.sizes)
        f.line(
            f"if (rc == 0) rc = TVMFuncCall(run, args, type_codes, {count}, &result, &result_code);"
        )
        if ticket:
            started = "rc == 0 && result_code == kTVMOpaqueHandle"
            f.line(f"*{ticket} = {started} ? result.v_handle : NULL;")
        return "rc"


def _arguments(
    f: FunctionWriter,
    operands: list[Parameter],
    accesses: list[Access],
    sizes: Sequence[Symbol] = (),
) -> None:
    """Print tensors on the stack and the packed function arguments that refer to them."""
    rows = [_tensor(f, parameter, access) for parameter, access in zip(operands, accesses)]
    if sizes:
        f.line(f"int64_t sizes[] = {{{', '.join(symbol.text(names=False) for symbol in sizes)}}};")
        f.line(f"int64_t num_sizes[] = {{{len(sizes)}}};")
        rows.append("{sizes, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, num_sizes, NULL, 0}")
    count = len(rows)
    f.line("DLTensor tensors[] = {")
    for row in rows:
        f.line(f"    {row},")
    f.line("};")
    f.line(f"TVMValue args[{count}];")
    f.line(f"int type_codes[{count}];")
    f.line("TVMValue result;")
    f.line("int result_code;")
    with f.loop("i", count):
        f.line("args[i].v_handle = &tensors[i];")
        f.line("type_codes[i] = kTVMDLTensorHandle;")


def _tensor(f: FunctionWriter, parameter: Parameter, access: Access) -> str:
    """Return a DLTensor initialiser, after printing its shape and, if not dense, its strides."""
    dtype, at = access.dtype, access.at
    shape = strides = "NULL"
    if at.shape:
        shape = f.fresh(f"{parameter.name}_shape")
        f.line(f"int64_t {shape}[] = {{{', '.join(map(str, at.shape))}}};")
    if not at.is_dense():
        strides = f.fresh(f"{parameter.name}_strides")
        f.line(f"int64_t {strides}[] = {{{', '.join(map(str, at.strides))}}};")
    # DLTensor.data is not const; the device does not write to inputs
    data = f"(void *)(uintptr_t){parameter.name}" if parameter.const else parameter.name
    kind = f"{{{dtype.code}, {dtype.bits}, 1}}"
    device = _device(f, parameter, access)
    return f"{{{data}, {device}, {len(at.shape)}, {kind}, {shape}, {strides}, 0}}"


def _device(f: FunctionWriter, parameter: Parameter, access: Access) -> str:
    if is_bound_per_run(access):
        return f.device_of(parameter)
    memory = access.buffer.memory
    return "{kDLCPU, 0}" if memory is None else memory.c


@lowers("onnx_node")
class ForeignLowering(Lowering):
    """Node without C code; it was imported for a device."""

    def operands(self):
        raise UnsupportedError(
            f"{', '.join(self.node.sources)}: tvmrt has no C code for this operator, and no device "
            f"supports it here (boards, loop bodies and {option('device_fallback')} need C code); "
            f"choose such a device with {option('devices')}, or declare the operator with "
            f"{option('operators')}"
        )
