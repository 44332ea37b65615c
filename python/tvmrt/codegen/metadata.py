"""The metadata structs that a network carries about itself (metadata.h)."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.ir.graph import TensorType
from tvmrt.ir.program import Buffer, Program

from . import firmware_pools
from .arguments import weight_inputs
from .naming import sanitize
from .packed import exported_head


def print_metadata(program: Program, prefix: str, sources, options) -> list[str]:
    """Lines of C: both descriptions and the functions that return them.

    These are packed functions; in firmware the network's prefix stands before their names, and with
    the C interface they are plain ones.
    """
    extra = weight_inputs(sources, options)
    inputs = [
        *((name, t) for name, t in zip(program.input_names, program.input_types)),
        *((b.name, TensorType((b.size,), b.dtype)) for b in extra),
    ]
    outputs = list(zip(program.output_names, program.output_types))
    pools = _pools(program, options)
    getter_prefix = f"{prefix}_" if options.firmware else ""
    lines: list[str] = []
    if options.executor == "aot":
        lines += _classic(inputs, outputs, pools, prefix)
        if options.interface_api == "c":
            lines += _accessor(f"{prefix}_metadata", "TVMMetadata", "metadata")
        else:
            lines += _getter(f"{getter_prefix}get_c_metadata", "metadata")
    lines += _model(inputs, outputs, prefix, program, sources, options)
    if options.interface_api == "c":
        accessor = f"{prefix}_model_metadata"
        return [*lines, *_accessor(accessor, "TVMModelMetadata", "&model_metadata")]
    return [*lines, *_getter(f"{getter_prefix}get_model_metadata", "&model_metadata")]


def accessor_declarations(prefix: str) -> list[str]:
    """Lines of the header of a network with the C interface."""
    return [
        "struct TVMMetadata;",
        "struct TVMModelMetadata;",
        "/*! \\brief What the network says about itself; see tvm/runtime/metadata.h. */",
        f"const struct TVMMetadata *{prefix}_metadata(void);",
        "/*! \\brief The same with the memory that every function needs. */",
        f"const struct TVMModelMetadata *{prefix}_model_metadata(void);",
        "",
    ]


def _accessor(symbol: str, struct: str, variable: str) -> list[str]:
    return [f"const struct {struct} *{symbol}(void) {{ return {variable}; }}", ""]


def _pools(program: Program, options) -> list[tuple[str, int]]:
    """Names and bytes of the pools that main takes, in its order."""
    if not options.firmware:
        return [("workspace", program.arena_bytes)] if program.arena_bytes else []
    rows = [(pool.name, pool.used_bytes) for _, pool in firmware_pools.used(program)]
    if [name for name, _ in rows] == [firmware_pools.WORKSPACE]:
        rows = [("global_workspace", rows[0][1])]
    return [(f"{name}_{i}_var", nbytes) for i, (name, nbytes) in enumerate(rows)]


def _string(text: str) -> str:
    """A C string literal of any Unicode text."""
    out = []
    for byte in text.encode("utf-8"):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= byte < 127 and char != "?":
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def _dtype(type: TensorType) -> str:
    return f"{{{type.dtype.code}, {type.dtype.bits}, 1}}"


def _shapes(prefix: str, rows: Sequence[tuple[str, TensorType]]) -> list[str]:
    return [
        f"static const int64_t {prefix}{i}_shape[] = {{{', '.join(map(str, t.shape))}}};"
        for i, (_, t) in enumerate(rows)
        if t.rank
    ]


def _shape_name(prefix: str, i: int, type: TensorType) -> str:
    return f"{prefix}{i}_shape" if type.rank else "NULL"


def _classic(inputs, outputs, pools, prefix: str) -> list[str]:
    lines = [*_shapes("input", inputs), *_shapes("output", outputs)]
    lines += _infos("inputs", "input", [(sanitize(n), t) for n, t in inputs])
    lines += _infos("outputs", "output", [(f"output{i}", t) for i, (_, t) in enumerate(outputs)])
    pool_ref = "NULL"
    if pools:
        pool_ref = "pools"
        lines += [
            *(f"static const int64_t pool{i}_shape[] = {{{n}}};" for i, (_, n) in enumerate(pools)),
            "static const struct TVMTensorInfo pools[] = {",
            *(
                f'  {{"{name}", pool{i}_shape, 1, {{1, 8, 1}}}},'
                for i, (name, _) in enumerate(pools)
            ),
            "};",
        ]
    first_in = "inputs" if inputs else "NULL"
    first_out = "outputs" if outputs else "NULL"
    lines += [
        "static const struct TVMMetadata metadata[] = {{",
        f"  TVM_METADATA_VERSION, {first_in}, {len(inputs)}, {first_out}, {len(outputs)}, "
        f'{pool_ref}, {len(pools)}, NULL, 0, "{prefix}",',
        "}};",
        "",
    ]
    return lines


def _infos(array: str, stem: str, rows) -> list[str]:
    if not rows:
        return []
    return [
        f"static const struct TVMTensorInfo {array}[] = {{",
        *(
            f"  {{{_string(name)}, {_shape_name(stem, i, t)}, {t.rank}, {_dtype(t)}}},"
            for i, (name, t) in enumerate(rows)
        ),
        "};",
    ]


def _getter(symbol: str, variable: str) -> list[str]:
    return [
        *exported_head(symbol, ["args", "type_codes", "num_args", "resource_handle"]),
        "  /* the ABI has no const handle; nobody writes through it */",
        f"  out_ret_value->v_handle = (void *)(uintptr_t){variable};",
        "  *out_ret_tcode = kTVMOpaqueHandle;",
        "  return 0;",
        "}",
        "",
    ]


def _model(inputs, outputs, prefix: str, program: Program, sources, options) -> list[str]:
    """Main function first, then the operators, each with the sizes that it needs."""
    lines: list[str] = []
    if options.executor != "aot":
        lines += [*_shapes("input", inputs), *_shapes("output", outputs)]
    params = "main_params" if inputs or outputs else "NULL"
    lines += _main_params(inputs, outputs)
    constant = len(sources.weights)
    if options.firmware:  # arrays, without gaps
        constant = sum(b.nbytes for b in sources.weight_buffers)
    io = sum(t.nbytes for _, t in [*inputs, *outputs])
    rows = [
        f'"{prefix}___tvm_main__", {params}, {len(inputs)}, {len(outputs)}, {program.arena_bytes}, '
        f"{io}, {constant}"
    ]
    for number, function in enumerate(sources.functions):
        params = "NULL, 0, 0"
        if function.step.group.root.op == "region":
            params = f"region{number}_params, {_counts(function)}"
            lines += _region_params(f"region{number}", function)
        rows.append(f'"{function.symbol}", {params}, {_sizes(function)}')
    return [
        *lines,
        "static const struct TVMFunctionInfo functions[] = {",
        *(f"  {{{row}}}," for row in rows),
        "};",
        "static const struct TVMModelMetadata model_metadata = {",
        f'  TVM_MODEL_METADATA_VERSION, functions, {len(rows)}, "{options.module_name}",',
        "};",
        "",
    ]


def _main_params(inputs, outputs) -> list[str]:
    rows = [
        *((name, f"input{i}", t) for i, (name, t) in enumerate(inputs)),
        *((name, f"output{i}", t) for i, (name, t) in enumerate(outputs)),
    ]
    if not rows:
        return []
    return [
        "static const struct TVMParameterInfo main_params[] = {",
        *(
            f"  {{{_string(name)}, {_string(sanitize(name))}, "
            f"{f'{stem}_shape' if t.rank else 'NULL'}, {t.rank}, {_dtype(t)}, {{kDLCPU, 0}}}},"
            for name, stem, t in rows
        ),
        "};",
    ]


def _sizes(function) -> str:
    """Bytes of an operator's scratch memory, of what it reads and writes, of its weights."""
    step = function.step
    touched = _unique([a.buffer for a in [*step.reads, *step.writes]])
    weights = [b for b in _unique([p.buffer for p in function.parameters]) if b.data is not None]
    size, constant = sum(b.nbytes for b in touched), sum(b.nbytes for b in weights)
    return f"{step.scratch_bytes}, {size}, {constant}"


def _counts(function) -> str:
    return f"{len(function.step.reads)}, {len(function.step.writes)}"


def _region_params(name: str, function) -> list[str]:
    """Lines of C: what crosses the border of a region, and where its memory is.

    That is the host's: devices with memory of their own copy what they are passed.
    """
    root, step = function.step.group.root, function.step
    values = [*step.read_values, *root.outputs]
    parameters = function.parameters[: len(values)]
    rows = [(f"{name}_{i}_shape", v, p.name) for i, (v, p) in enumerate(zip(values, parameters))]
    shapes = [
        f"static const int64_t {shape}[] = {{{', '.join(map(str, v.shape))}}};"
        for shape, v, _ in rows
        if v.type.rank
    ]
    return [
        *shapes,
        f"static const struct TVMParameterInfo {name}_params[] = {{",
        *(
            f"  {{{_string(v.name)}, {_string(label)}, {shape if v.type.rank else 'NULL'}, "
            f"{v.type.rank}, {_dtype(v.type)}, {{kDLCPU, 0}}}},"
            for shape, v, label in rows
        ),
        "};",
    ]


def _unique(buffers: Sequence[Buffer]) -> list[Buffer]:
    return list(dict.fromkeys(buffers))
