"""Metadata structs of a network (metadata.h)."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import DTYPES, DeviceMemory
from tvmrt.compiler.ir.dtype import dtype_of_text
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.sizes import INT_MAX, upper_bound
from tvmrt.compiler.ir.tensor_type import TensorType

from .. import pools as pools_file
from ..c.formatting import GAP, counted, initializer, print_fields, rows, wrap
from ..c.initializers import dtype_initializer
from ..c.naming import sanitize
from ..c.packed_functions import exported_head, shared_name
from ..c.writer import c_string
from .model_metadata import CPU, main_tensors, model_metadata


def print_metadata(program: Program, prefix: str, sources, options) -> list[str]:
    """Return C lines with both metadata structs and the functions that return them.

    These are packed functions, in firmware only under the network's prefix; with the C interface
    they are plain functions.
    """
    inputs, outputs = main_tensors(program, sources, options)
    pools = _pools(program, options)
    getter = _print_own if options.firmware else print_getter
    lines: list[str] = []
    if options.executor == "aot":
        lines += _classic(inputs, outputs, pools, prefix)
        if options.interface_api == "c":
            lines += _accessor(f"{prefix}_metadata", "TVMMetadata", "metadata")
        else:
            lines += getter(prefix, "get_c_metadata", "metadata")
    lines += _model(model_metadata(program, sources, options))
    if options.interface_api == "c":
        accessor = f"{prefix}_model_metadata"
        return [*lines, *_accessor(accessor, "TVMModelMetadata", "&model_metadata")]
    return [*lines, *getter(prefix, "get_model_metadata", "&model_metadata")]


_NAME_PART = 60  # characters of a name in one string
NOMINAL_BYTES = 64  # of a workspace that each run plans: it is cleared, so it has no plan

INCLUDES = [
    "#include <stddef.h>",
    "#include <stdint.h>",
    "",
    "#include <tvm/runtime/c_backend_api.h>",
    "#include <tvm/runtime/metadata.h>",
    "",
]


def accessor_declarations(prefix: str) -> list[str]:
    """Return header lines with the accessors of a network with the C interface."""
    return [
        "struct TVMMetadata;",
        "struct TVMModelMetadata;",
        "/*! \\brief Metadata of the network; see tvm/runtime/metadata.h. */",
        f"const struct TVMMetadata *{prefix}_metadata(void);",
        "/*! \\brief Metadata of the network with the memory that each function needs. */",
        f"const struct TVMModelMetadata *{prefix}_model_metadata(void);",
        "",
    ]


def _accessor(symbol: str, struct: str, variable: str) -> list[str]:
    return [f"const struct {struct} *{symbol}(void) {{ return {variable}; }}", ""]


def _pools(program: Program, options) -> list[tuple[str, int]]:
    """Return names and bytes of the pools that main takes, in order."""
    if not options.firmware:
        size = program.arena_bytes if program.run_plan is None else NOMINAL_BYTES
        host = [("workspace", size)] if size else []
        return [*host, *((pool.name, pool.used_bytes) for _, pool in program.device_pools())]
    rows = [(pool.name, pool.used_bytes) for _, pool in pools_file.used_pools(program)]
    if [name for name, _ in rows] == [pools_file.WORKSPACE]:
        rows = [("global_workspace", rows[0][1])]
    return [(f"{name}_{i}_var", nbytes) for i, (name, nbytes) in enumerate(rows)]


def pool_memories(program: Program) -> list[DeviceMemory | None]:
    """Return the memory of each workspace pool of a hosted network's main; None is host memory."""
    host = [None] if program.arena_bytes or program.run_plan is not None else []
    return [*host, *(pool.memory for _, pool in program.device_pools())]


def _shapes(stem: str, tensors: Sequence[tuple[str, TensorType]]) -> list[str]:
    """Return arrays of extents; a tensor of rank 0 has none."""
    return [
        line
        for i, (_, t) in enumerate(tensors)
        if t.rank
        for extents in [[min(upper_bound(n), INT_MAX) for n in t.shape]]
        for line in wrap(f"static const int64_t {stem}{i}_shape[] = ", extents, ";", brackets="{}")
    ]


def _classic(inputs, outputs, pools, prefix: str) -> list[str]:
    lines = [*_shapes("input", inputs), *_shapes("output", outputs)]
    lines += _infos("inputs", "input", [(sanitize(n), t) for n, t in inputs])
    lines += _infos("outputs", "output", [(f"output{i}", t) for i, (_, t) in enumerate(outputs)])
    sized = [(name, TensorType((n,), DTYPES["uint8"])) for name, n in pools]
    lines += [*_shapes("pool", sized), *_infos("pools", "pool", sized)]
    metadata = {
        "version": "TVM_METADATA_VERSION",
        **counted("inputs", "inputs", inputs),
        **counted("outputs", "outputs", outputs),
        **counted("workspace_pools", "pools", pools),
        "mod_name": f'"{prefix}"',
    }
    return [*lines, *rows("static const struct TVMMetadata metadata[]", [metadata]), ""]


def _infos(array: str, stem: str, tensors: Sequence[tuple[str, TensorType]]) -> list[str]:
    if not tensors:
        return []
    infos = [
        {
            "name": c_string(name),
            "shape": f"{stem}{i}_shape" if t.rank else "NULL",
            "num_shape": t.rank,
            "dtype": dtype_initializer(t.dtype),
        }
        for i, (name, t) in enumerate(tensors)
    ]
    return rows(f"static const struct TVMTensorInfo {array}[]", infos)


def print_getter(prefix: str, name: str, variable: str) -> list[str]:
    """Return C lines of a packed host function that returns the address of a constant. It has the
    network's own name and a generic name."""
    return [*_print_own(prefix, name, variable), *shared_name(name, f"{prefix}_{name}")]


def print_text_getter(prefix: str, name: str, text: str) -> list[str]:
    """Return C lines of a packed host function that returns a text."""
    result = [f"  out_ret_value->v_str = {c_string(text)};", "  *out_ret_tcode = kTVMStr;"]
    return [*_print_result(prefix, name, result), *shared_name(name, f"{prefix}_{name}")]


def _print_own(prefix: str, name: str, variable: str) -> list[str]:
    result = [
        "  /* the ABI has no const handle; the metadata is only read */",
        f"  out_ret_value->v_handle = (void *)(uintptr_t){variable};",
        "  *out_ret_tcode = kTVMOpaqueHandle;",
    ]
    return _print_result(prefix, name, result)


def _print_result(prefix: str, name: str, result: list[str]) -> list[str]:
    unused = ["args", "type_codes", "num_args", "resource_handle"]
    head = exported_head(f"{prefix}_{name}", unused)
    return [*head, *result, "  return 0;", "}", ""]


def _model(content: dict) -> list[str]:
    """Return the struct of the main function and the operators."""
    shapes: dict[str, list[str]] = {}  # equal extents are stored once
    params, functions = [], []
    for each in content["functions"]:
        first = {"params": f"&params[{len(params)}]"} if each["params"] else {}
        functions.append({**each, "function_name": c_string(each["function_name"]), **first})
        params += [_parameter(row, shapes) for row in each["params"]]
    model = {
        "version": "TVM_MODEL_METADATA_VERSION",
        "functions": "functions",
        "num_functions": len(functions),
        "module_name": c_string(content["module_name"]),
    }
    functions = [{k: v for k, v in row.items() if v} for row in functions]
    return [
        *(line for lines in shapes.values() for line in lines),
        *(rows("static const struct TVMParameterInfo params[]", params) if params else []),
        *rows("static const struct TVMFunctionInfo functions[]", functions),
        *print_fields("static const struct TVMModelMetadata model_metadata", model),
        "",
    ]


def _name(text: str) -> str:
    """Return a C string; a long one in parts, between which a line may break."""
    parts = [text[i : i + _NAME_PART] for i in range(0, len(text), _NAME_PART)]
    return GAP.join(map(c_string, parts or [""]))


def _parameter(row: dict, shapes: dict[str, list[str]]) -> dict[str, object]:
    """Return a TVMParameterInfo; the array of its extents is added to ``shapes``."""
    extents = row["shape"]
    shape = "_".join(["shape", *map(str, extents)])
    if extents and shape not in shapes:
        shapes[shape] = wrap(f"static const int64_t {shape}[] = ", extents, ";", brackets="{}")
    kind, number = row["device"].values()
    host = initializer({"device_type": "kDLCPU"})
    return {
        "relay_name_hint": _name(row["relay_name_hint"]),
        "tir_name_hint": _name(row["tir_name_hint"]),
        **({"shape": shape, "ndim": len(extents)} if extents else {}),
        "dtype": dtype_initializer(dtype_of_text(row["dtype"])),
        "device": host if kind == CPU else DeviceMemory("", kind, number).c,
    }
