"""Checked run function: it compares the sizes of the caller's memory with those of the network.

C pointers carry no size, and tensors from old callers may have only a pointer, so the normal run
function trusts its arguments. The checked one lies in its own file, so that programs which do not
call it do not link it.
"""

from __future__ import annotations

from tvmrt.compiler.ir import PACKED_NAMES
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.sizes import Extent, SymInt

from .. import pools as pools_file
from ..c.formatting import GAP, Declaration, reject_if, wrap
from ..c.initializers import dtype_initializer
from ..c.packed_functions import packed_prototype
from . import link_guard
from .header import prototype
from .main import run_parameters
from .tensor_names import input_tensors, output_tensors, own_includes, tensor_macro

_CODES = [
    " * \\return As {run}(), and additionally:",
    " * kTvmErrorNetworkTensorMismatch if an input is not exactly as large as its type and shape",
    " * or an output has fewer, kTvmErrorNetworkPoolTooSmall if a pool is too small. Nothing is",
    " * written in these cases.",
    " */",
]


def declarations(program: Program, prefix: str, options) -> list[str]:
    """Return the header lines."""
    if options.interface_api == "packed":
        return [
            *(_sizes_struct(program, prefix, _TAKEN) if program.has_dynamic_dims() else []),
            "/*!",
            f" * \\brief Check types, shapes and strides of all tensors, then call {prefix}_run().",
            f" * \\return As {prefix}_run(), and also kTvmErrorFunctionCallWrongArgType for",
            " * an argument that is not a tensor, kTvmErrorNetworkTensorMismatch for a wrong type,",
            " * shape or layout, kTvmErrorNetworkPoolTooSmall for too small a pool. Nothing is",
            " * written in these cases.",
            " */",
            *packed_prototype(
                f"{prefix}_run_checked", link_guard.prototype_end(prefix, "run_checked")
            ),
            "",
        ]
    return [
        *_sizes_struct(program, prefix, "Bytes available at each pointer of the caller."),
        "/*!",
        f" * \\brief Check the sizes of all arguments, then call {prefix}_run().",
        *(line.format(run=f"{prefix}_run") for line in _CODES),
        *prototype(prefix, "run_checked", _parameters(program, prefix)),
        "",
    ]


_TAKEN = "Bytes of tensors and pools at given sizes."


def _sizes_struct(program: Program, prefix: str, brief: str) -> list[str]:
    members = [f"  size_t {name};" for name, _, _ in _members(program, prefix)]
    return [
        f"/*! \\brief {brief} */",
        f"struct {prefix.lower()}_sizes {{",
        *(members or ["  size_t unused; /*!< C has no empty structs. */"]),
        "};",
        "",
    ]


def print_file(program: Program, prefix: str, options) -> str:
    """Return the text of the file."""
    lines = [*own_includes(prefix, "crt/error_codes"), ""]
    if options.interface_api == "packed":
        lines += _packed(program, prefix)
    else:
        lines += _plain(program, prefix)
    lines += link_guard.guard(prefix, "run_checked")
    return "\n".join(lines)


def _parameters(program: Program, prefix: str) -> list[Declaration]:
    sizes = Declaration(f"struct {prefix.lower()}_sizes", "sizes", pointer=True, const=True)
    return [*run_parameters(program, prefix), sizes]


def _members(program: Program, prefix: str) -> list[tuple[str, str, str]]:
    """Return members of the struct of sizes: name, failing comparison and error."""
    rows = []
    invalid = "NetworkTensorMismatch"
    moves = program.has_dynamic_dims()

    def needed(member: str) -> str:
        return f"needed.{member}" if moves else tensor_macro(prefix, member)

    if not pools_file.io_in_pools(program):
        for tensor in input_tensors(program):
            rows.append((tensor.member, f"!= {needed(tensor.member)}", invalid))
        for tensor in output_tensors(program):
            comparison = _less_than(needed(tensor.member), moves or tensor.type.nbytes)
            rows.append((tensor.member, comparison, invalid))
    for pool in pools_file.caller_provided(program):
        macro = pools_file.pool_macro(prefix, pool)
        member = f"{pool.name}_workspace_pool"
        rows.append((member, _less_than(macro, pool.used_bytes), "NetworkPoolTooSmall"))
    return rows


def _measure_sizes(program: Program, prefix: str) -> list[str]:
    """Return C lines that compute the tensor sizes for the dimensions of this run."""
    if pools_file.io_in_pools(program):
        return []
    arguments = ["dims"] * bool(program.dims()) + ["NULL"] * bool(program.data_dependent_dims)
    call = f"{prefix}_measure({', '.join([*arguments, 'NULL', '&needed'])})"
    return [
        f"  struct {prefix.lower()}_sizes needed;",
        f"  const int32_t code = {call};",
        "  if (code != 0) return code;",
    ]


def _less_than(macro: str, nbytes: int) -> str:
    """Return a comparison, or "" for a size of 0: compilers warn that no size is smaller."""
    return f"< {macro}" if nbytes else ""


def _plain(program: Program, prefix: str) -> list[str]:
    parameters = _parameters(program, prefix)
    lines = [
        *wrap(f"int32_t {prefix}_run_checked", parameters, " {"),
        "  if (sizes == NULL) return kTvmErrorFunctionCallInvalidArg;",
    ]
    if program.has_dynamic_dims():
        lines += _measure_sizes(program, prefix)
    for name, comparison, error in _members(program, prefix):
        if comparison:
            lines += reject_if(f"sizes->{name}{GAP}{comparison}", error)
    passed = [p.name for p in parameters[:-1]]
    return [*lines, *wrap(f"  return {prefix}_run", passed, ";"), "}", ""]


def _packed(program: Program, prefix: str) -> list[str]:
    types = [*program.input_types, *program.output_types]
    pools = pools_file.caller_provided(program)
    lines = [
        "#include <tvm/runtime/c_backend_api.h>",
        "",
        *_table(types),
        *(_mismatch_function(program) if types else []),
        *(_TOO_SMALL if any(p.used_bytes for p in pools) else []),
        *packed_prototype(f"{prefix}_run_checked", " {"),
        f"  if (num_args != {len(types) + len(pools)}) return kTvmErrorFunctionCallNumArguments;",
        "  if (num_args > 0 && (args == NULL || type_codes == NULL)) {",
        "    return kTvmErrorFunctionCallInvalidArg;",
        "  }",
        "  for (int i = 0; i < num_args; ++i) {",
        "    if (type_codes[i] != kTVMDLTensorHandle) return kTvmErrorFunctionCallWrongArgType;",
        "    if (args[i].v_handle == NULL) return kTvmErrorFunctionCallInvalidArg;",
        "  }",
    ]
    if types:
        lines += [
            f"  for (int i = 0; i < {len(types)}; ++i) {{",
            "    if (differs((const DLTensor *)args[i].v_handle, i))",
            "      return kTvmErrorNetworkTensorMismatch;",
            "  }",
        ]
    for i, pool in enumerate(pools, len(types)):
        if pool.used_bytes:
            macro = pools_file.pool_macro(prefix, pool)
            lines.append(f"  if (too_small((const DLTensor *)args[{i}].v_handle, {macro}))")
            lines.append("    return kTvmErrorNetworkPoolTooSmall;")
    return [*lines, *wrap(f"  return {prefix}_run", PACKED_NAMES, ";"), "}", ""]


def _mismatch_function(program: Program) -> list[str]:
    """Return C lines of the check; dynamic extents are accepted here and checked by run."""
    if not program.dims():
        return _DIFFERS
    of_run = [
        "    const int64_t extent = tensor->shape[d];",
        "    if (expected[i].shape[d] >= 0 && extent != expected[i].shape[d]) return 1;",
    ]
    begin = next(i for i, line in enumerate(_DIFFERS) if "const int64_t extent" in line)
    return [*_DIFFERS[:begin], *of_run, *_DIFFERS[begin + 2 :]]


def _table(types) -> list[str]:
    if not types:
        return []
    shapes = [
        f"static const int64_t shape{i}[] = {{{', '.join(map(_expected, t.shape))}}};"
        for i, t in enumerate(types)
        if t.rank
    ]
    rows = [
        f"    {{.dtype = {dtype_initializer(t.dtype)}, .ndim = {t.rank},"
        f" .shape = {f'shape{i}' if t.rank else 'NULL'}}},"
        for i, t in enumerate(types)
    ]
    return [
        *shapes,
        "",
        "/* Inputs, then outputs. */",
        "static const struct {",
        "  DLDataType dtype;",
        "  int32_t ndim;",
        "  const int64_t *shape;",
        "} expected[] = {",
        *rows,
        "};",
        "",
    ]


def _expected(extent: SymInt) -> str:
    return "-1" if isinstance(extent, Extent) else str(extent)


_DIFFERS = [
    "/* Whether a tensor does not have the type, shape and contiguous layout of argument i. */",
    "static int differs(const DLTensor *tensor, int i) {",
    "  int64_t stride = 1;",
    "  if (tensor->ndim != expected[i].ndim || tensor->byte_offset != 0) return 1;",
    "  if (tensor->dtype.code != expected[i].dtype.code ||",
    "      tensor->dtype.bits != expected[i].dtype.bits || tensor->dtype.lanes != 1)",
    "    return 1;",
    "  if (tensor->ndim > 0 && tensor->shape == NULL) return 1;",
    "  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {",
    "    const int64_t extent = expected[i].shape[d];",
    "    if (tensor->shape[d] != extent) return 1;",
    "    if (tensor->strides != NULL && extent != 1 && tensor->strides[d] != stride) return 1;",
    "    stride *= extent;",
    "  }",
    "  return 0;",
    "}",
    "",
]

_TOO_SMALL = [
    "/* Whether a tensor has fewer bytes than its pool needs. */",
    "static int too_small(const DLTensor *tensor, int64_t bytes) {",
    "  return tensor->ndim != 1 || tensor->shape == NULL || tensor->byte_offset != 0 ||",
    "         tensor->shape[0] * ((tensor->dtype.bits + 7) / 8) * tensor->dtype.lanes < bytes;",
    "}",
    "",
]
