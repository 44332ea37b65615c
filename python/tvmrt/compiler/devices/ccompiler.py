"""ccompiler: the C source generator of the guide "Bring your own code generator".

Supports addition, subtraction and multiplication of float32 tensors. For each region it generates
three functions: ``<symbol>_`` over pointers, ``<symbol>_wrapper_`` over tensors, and ``<symbol>``,
the packed function that the network calls. The class names are those of the guide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tvmrt.compiler.ir import PACKED_PARAMETERS, CSource, Node, Region, Value
from tvmrt.compiler.ir.rounding import round_up

from .base import Context, Device
from .expr_visitor import ExprVisitor
from .registry import register

OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
MAX_CONSTANT_ELEMENTS = 1 << 16  # larger constants would take too long to compile as C text

HEADERS = """\
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tvm/runtime/c_backend_api.h>
"""

OPERATOR_MACROS = r"""
#define CSOURCE_BINARY_OP_1D(p_ID_, p_OP_, p_DIM1_)                        \
  static void p_ID_(const float *a, const float *b, float *out) {          \
    for (int64_t i = 0; i < p_DIM1_; ++i) {                                \
      out[i] = a[i] p_OP_ b[i];                                            \
    }                                                                      \
  }
#define CSOURCE_BINARY_OP_2D(p_ID_, p_OP_, p_DIM1_, p_DIM2_)               \
  static void p_ID_(const float *a, const float *b, float *out) {          \
    for (int64_t i = 0; i < p_DIM1_; ++i) {                                \
      for (int64_t j = 0; j < p_DIM2_; ++j) {                              \
        int64_t k = i * p_DIM2_ + j;                                       \
        out[k] = a[k] p_OP_ b[k];                                          \
      }                                                                    \
    }                                                                      \
  }
"""


@dataclass
class Output:
    """Result of visiting a value: the name of a buffer and its number of elements."""

    name: str
    size: int


@dataclass
class CodegenCBase:
    """Printer of the functions of one region from the parts that a code generator has collected."""

    ext_func_args: list[str] = field(default_factory=list)

    def jit_impl(
        self,
        ext_func_id: str,
        args: Sequence[str],
        buf_decl: Sequence[Output],
        body: Sequence[str],
        out: Sequence[Output],
    ) -> str:
        """Return the subgraph function, its wrapper over tensors, and the packed function."""
        return "\n".join(
            [
                *self._subgraph(ext_func_id, args, buf_decl, body, out),
                *self._wrapper(ext_func_id, len(args), len(out)),
                *self._packed(ext_func_id, len(args) + len(out)),
            ]
        )

    def _subgraph(self, symbol, args, buf_decl, body, out) -> list[str]:
        """Return the function: one block of intermediate buffers, calls, copies of results."""
        parameters = [f"const float *{a}" for a in args]
        parameters += [f"float *out{i}" for i in range(len(out))]
        offsets = np.cumsum([0, *(round_up(b.size, 16) for b in buf_decl)])
        buffers = [f"  float *{b.name} = buf + {at};" for b, at in zip(buf_decl, offsets)]
        copies = [
            f"  memcpy(out{i}, {o.name}, {o.size} * sizeof(float));" for i, o in enumerate(out)
        ]
        return [
            _list(f"static int32_t {symbol}_", parameters, " {"),
            f"  float *buf = TVMBackendAllocWorkspace(kDLCPU, 0, {offsets[-1]} * sizeof(float),",
            "                                        kDLFloat, 32);",
            "  if (buf == NULL) return -1;",
            *buffers,
            *(f"  {line}" for line in body),
            *copies,
            "  return TVMBackendFreeWorkspace(kDLCPU, 0, buf);",
            "}",
            "",
        ]

    def _wrapper(self, symbol: str, inputs: int, outputs: int) -> list[str]:
        names = [*(f"arg{i}" for i in range(inputs)), *(f"out{i}" for i in range(outputs))]
        parameters = [f"DLTensor *{name}" for name in names]
        passed = [f"(float *)((char *){n}->data + {n}->byte_offset)" for n in names]
        return [
            _list(f"static int32_t {symbol}_wrapper_", parameters, " {"),
            _list(f"  return {symbol}_", passed, ";"),
            "}",
            "",
        ]

    def _packed(self, symbol: str, count: int) -> list[str]:
        signature = _list(f"int32_t {symbol}", PACKED_PARAMETERS, "")
        passed = [f"(DLTensor *)args[{i}].v_handle" for i in range(count)]
        return [
            f"TVM_DLL {signature};",
            f"{signature} {{",
            "  (void)type_codes;",
            "  (void)out_ret_value;",
            "  (void)out_ret_tcode;",
            "  (void)resource_handle;",
            f"  if (num_args != {count}) {{",
            f'    TVMAPISetLastError("{symbol}: expected {count} tensors");',
            "    return -1;",
            "  }",
            _list(f"  return {symbol}_wrapper_", passed, ";"),
            "}",
            "",
        ]


def _list(head: str, parts: Sequence[str], end: str) -> str:
    """Return ``head(part, part)end``, with one part per line if it is too long for one line."""
    line = f"{head}({', '.join(parts)}){end}"
    return line if len(line) <= 100 else f"{head}(\n      " + ",\n      ".join(parts) + f"){end}"


class CodegenC(ExprVisitor, CodegenCBase):
    """Visitor of a region that collects a declaration, a buffer and a call for each operator."""

    def __init__(self, ext_func_id: str) -> None:
        ExprVisitor.__init__(self)
        CodegenCBase.__init__(self)
        self.ext_func_id = ext_func_id
        self.func_idx = 0
        self.buf_idx = 0
        self.func_decl: list[str] = []
        self.buf_decl: list[Output] = []
        self.ext_func_body: list[str] = []
        self.const_decl: list[str] = []

    def visit_var(self, value: Value) -> Output:
        """Make an input a parameter."""
        name = f"input{len(self.ext_func_args)}"
        self.ext_func_args.append(name)
        return Output(name, value.type.size)

    def visit_constant(self, value: Value) -> Output:
        """Make a constant an array, broadcast to the size of the other operand."""
        return self._array(value.data)

    def visit_call(self, node: Node) -> Output:
        """Make an operator a function of its own and a call of it."""
        name = f"{self.ext_func_id}_{self.func_idx}"
        self.func_idx += 1
        shape = node.output.shape if node.output.type.rank == 2 else (node.output.type.size,)
        extents = ", ".join(map(str, shape))
        operator = OPERATORS[node.op]
        self.func_decl.append(f"CSOURCE_BINARY_OP_{len(shape)}D({name}, {operator}, {extents})")
        operands = [self._operand(v, node.output.shape).name for v in node.inputs]
        out = Output(f"buf_{self.buf_idx}", node.output.type.size)
        self.buf_idx += 1
        self.buf_decl.append(out)
        self.ext_func_body.append(f"{name}({', '.join([*operands, out.name])});")
        return out

    def _operand(self, value: Value, shape: tuple[int, ...]) -> Output:
        if value.is_constant and value.shape != shape:
            return self._array(np.broadcast_to(value.data, shape))
        return self.visit(value)

    def _array(self, data: np.ndarray) -> Output:
        name = f"{self.ext_func_id}_const{len(self.const_decl)}"
        items = ", ".join(_literal(v) for v in data.reshape(-1))
        self.const_decl.append(f"static const float {name}[] = {{{items}}};")
        return Output(name, data.size)

    def jit(self, region: Region) -> str:
        """Return the region's C code."""
        out = self.visit_region(region)
        functions = self.jit_impl(
            self.ext_func_id, self.ext_func_args, self.buf_decl, self.ext_func_body, out
        )
        return "\n".join([*self.const_decl, *self.func_decl, "", functions])


def _literal(value: float) -> str:
    text = repr(float(np.float32(value)))
    if "inf" in text or "nan" in text:
        return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}[text]
    return f"{text}f"


class CSourceCodegen:
    """Code generator of all regions, as one text or as a module with it."""

    def gen_c_func(self, region: Region) -> str:
        """Return the C code of one region."""
        return CodegenC(region.symbol).jit(region)

    def code(self, regions: Sequence[Region]) -> str:
        """Return the whole text: headers, macros, and the functions of every region."""
        functions = [self.gen_c_func(region) for region in regions]
        return "\n".join([HEADERS, OPERATOR_MACROS, *functions])

    def create_c_source_module(self, regions: Sequence[Region]):
        """Return a runtime module of kind ``c`` with the text; needs the runtime."""
        from tvmrt.runtime import get_global_func

        create = get_global_func("module.csource_module_create")
        return create(self.code(regions), "c", [region.symbol for region in regions])


@register
class CCompiler(Device):
    """Device for addition, subtraction and multiplication; only constants may be broadcast."""

    name = "ccompiler"

    def supports(self, node: Node) -> str | None:
        if node.op not in OPERATORS:
            return f"ccompiler knows add, sub and mul, not {node.op}"
        if node.output.dtype.name != "float32":
            return f"ccompiler computes in float32, not in {node.output.dtype}"
        for value in node.inputs:
            if value.is_constant and node.output.type.size > MAX_CONSTANT_ELEMENTS:
                return f"a constant of {node.output.type.size} elements is too large for C source"
            if not value.is_constant and value.shape != node.output.shape:
                return "ccompiler broadcasts constants only"
        return None

    def codegen(self, regions: Sequence[Region], context: Context) -> CSource:
        return CSource(CSourceCodegen().code(regions), entry="packed")


__all__ = ["CCompiler", "CSourceCodegen", "CodegenC", "CodegenCBase", "Output"]
