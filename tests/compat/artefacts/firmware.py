"""Code for boards as the releases generated it: z = (x + w) * 2, w in flash, and its archive.

Files are named and divided as in the archives: lib0 has the table of functions and the entry, the
others the metadata, and the operators with main.
"""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from artefacts import network, stream
from artefacts.releases import Release

NAME = "default"
PREFIX = f"tvmgen_{NAME}"
POOL_BYTES = 64
PACKED = (
    "(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, "
    "void* resource_handle)"
)
VOID_PACKED = (
    "(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, "
    "int32_t* out_ret_tcode, void* resource_handle)"
)
PRELUDE = (
    "// tvm target: c -keys=cpu\n"
    "#define TVM_EXPORTS\n"
    '#include "tvm/runtime/c_runtime_api.h"\n'
    '#include "tvm/runtime/c_backend_api.h"\n'
    "#include <math.h>\n"
)
GUARD = '#ifdef __cplusplus\nextern "C"\n#endif\n'


@dataclass(frozen=True)
class Build:
    """One way of generating code.

    Parameters
    ----------
    interface
        ``packed`` or ``c``: how the application calls the network.
    unpacked
        Whether operators take plain pointers.
    pools
        Where memory is: ``none`` for calls of the allocator, ``internal`` for pools that the code
        defines, ``external`` for a workspace pool that the application lends.
    device
        Whether the operators get the context of a device, which hooks open and close.
    """

    interface: str = "packed"
    unpacked: bool = False
    pools: str = "none"
    device: bool = False

    @property
    def name(self) -> str:
        calls = "unpacked" if self.unpacked else "packed"
        device = "-device" if self.device else ""
        return f"{self.interface}-{calls}-{self.pools}{device}"

    def since(self) -> int:
        """The first release that can generate it."""
        return 9 if self.pools != "none" or self.device else 8


BUILDS = [
    Build(),
    Build(unpacked=True),
    Build("c", unpacked=True),
    Build(pools="internal"),
    Build(unpacked=True, pools="internal"),
    Build("c", unpacked=True, pools="internal"),
    Build("c", unpacked=True, pools="external"),
    Build("c", unpacked=True, pools="external", device=True),
]


def function(signature: str, body: str, guard: str = GUARD) -> str:
    """A function with its prototype."""
    return f"{guard}TVM_DLL {signature};\n{guard}TVM_DLL {signature} {{\n{body}}}\n\n"


def floats(values: np.ndarray) -> str:
    return ", ".join(f"{value:e}f" for value in values.ravel())


def loop(out: str, expression: str) -> str:
    index = "ax0_ax1_fused"
    element = expression.replace("[]", f"[{index}]")
    return (
        f"  for (int32_t {index} = 0; {index} < 6; ++{index}) {{\n"
        f"    ((float*){out})[{index}] = ({element});\n"
        "  }\n"
    )


# ---- operators and main ----


def pool_offset(release: Release, pool: str, offset: int) -> str:
    cast = f"((uint8_t*){pool})" if release.first >= 15 else pool
    return f"(&({cast}[{offset}]))"


def operators(release: Release, build: Build) -> str:
    """The two operators and main."""
    text = PRELUDE
    if release.first >= 12:
        text += "#include <stdbool.h>\n"
    if build.pools == "none":
        text += (
            f'static const float __attribute__((section(".rodata.tvm"), aligned(16))) '
            f"fused_constant[6] = {{\n    {floats(network.W)}\n}};\n"
        )
    return text + (_unpacked(release, build) if build.unpacked else _packed(release, build))


def _weight(release: Release, build: Build, pool: str) -> str:
    if build.pools == "none":
        return "  const void* w = fused_constant;\n"
    return f"  void* w = {pool_offset(release, pool, 0)};\n"


def _packed(release: Release, build: Build) -> str:
    """Operators over tensors, called directly."""
    pools = build.pools != "none"

    def head(count: int) -> str:
        lines = ""
        for i in range(count):
            lines += f"  int32_t arg{i}_code = arg_type_ids[{i}];\n  (void)arg{i}_code;\n"
            lines += (
                f"  void* data{i} = (((DLTensor*)(((TVMValue*)args)[{i}].v_handle))[0].data);\n"
            )
        return lines

    add = head(3 if pools else 2)
    add += _weight(release, build, "((uint8_t*)data2)").replace("const_pool", "data2")
    add += loop("data1", "((float*)data0)[] + ((float*)w)[]") + "  return 0;\n"
    multiply = head(2) + loop("data1", "((float*)data0)[] * 2.000000e+00f") + "  return 0;\n"
    text = function(f"int32_t {PREFIX}_fused_add{VOID_PACKED}", add)
    text += function(f"int32_t {PREFIX}_fused_multiply{VOID_PACKED}", multiply)
    main = head(4 if pools else 2)
    main += "  TVMValue stack[3];\n  int32_t stack_tcode[3] = {7, 7, 7};\n"
    main += "  TVMValue ret_val;\n  int32_t ret_tcode;\n"
    main += "  DLTensor sid_1_tensor = *(DLTensor*)(((TVMValue*)args)[0].v_handle);\n"
    if pools:
        main += f"  void* sid_1 = {pool_offset(release, '((uint8_t*)data3)', 32)};\n"
    else:
        main += "  void* sid_1 = TVMBackendAllocWorkspace(1, 0, (uint64_t)24, 0, 8);\n"
        main += "  if (sid_1 == NULL) {\n    return -1;\n  }\n"
    main += "  sid_1_tensor.data = sid_1;\n"
    main += "  stack[0] = ((TVMValue*)args)[0];\n  stack[1].v_handle = &sid_1_tensor;\n"
    if pools:
        main += "  stack[2] = ((TVMValue*)args)[2];\n"
    call = "(stack, stack_tcode, {}, &ret_val, &ret_tcode, NULL) != 0) {{\n    return -1;\n  }}\n"
    main += f"  if ({PREFIX}_fused_add{call.format(3 if pools else 2)}"
    main += "  stack[0].v_handle = &sid_1_tensor;\n  stack[1] = ((TVMValue*)args)[1];\n"
    main += f"  if ({PREFIX}_fused_multiply{call.format(2)}"
    if not pools:
        main += "  if (TVMBackendFreeWorkspace(1, 0, sid_1) != 0) {\n    return -1;\n  }\n"
    return text + function(
        f"int32_t {PREFIX}_{release.aot_main}{VOID_PACKED}", main + "  return 0;\n"
    )


def main_parameters(build: Build) -> list[str]:
    """What main takes in unpacked calls: inputs, outputs, pools by name, devices."""
    names = ["x", "output"]
    if build.pools != "none":
        names += ["global_const_workspace_0_var", "global_workspace_1_var"]
    return [*names, "device_context_accel"] if build.device else names


def _declared(names: list[str]) -> str:
    kinds = {"x": "float*", "output": "float*", "device_context_accel": "void*"}
    return ", ".join(f"{kinds.get(name, 'uint8_t*')} {name}" for name in names)


def _unpacked(release: Release, build: Build) -> str:
    """Operators over plain pointers."""
    names = main_parameters(build)
    extra = names[2:]
    rest = "".join(f", {part}" for part in (_declared(extra),) if part)
    unused = "".join(f"  (void){name};\n" for name in extra)
    add = unused + _weight(release, build, "global_const_workspace_0_var")
    add += loop("T_add", "((float*)p0)[] + ((float*)w)[]") + "  return 0;\n"
    multiply = unused + loop("T_multiply", "((float*)p0)[] * 2.000000e+00f") + "  return 0;\n"
    text = function(f"int32_t {PREFIX}_fused_add(float* p0, float* T_add{rest})", add)
    text += function(
        f"int32_t {PREFIX}_fused_multiply(float* p0, float* T_multiply{rest})", multiply
    )
    passed = "".join(f", {name}" for name in extra)
    main = ""
    if build.pools == "none":
        main += "  void* sid_1 = TVMBackendAllocWorkspace(1, 0, (uint64_t)24, 0, 8);\n"
        main += "  if (sid_1 == NULL) return -1;\n"
    else:
        main += f"  void* sid_1 = {pool_offset(release, 'global_workspace_1_var', 32)};\n"
    # pointers without a type, as the generator passes them
    calls = [
        f"{PREFIX}_fused_add(x, sid_1{passed})",
        f"{PREFIX}_fused_multiply(sid_1, output{passed})",
    ]
    if build.device:
        hooks = {
            step: f"  if (TVMDeviceAccel{step}(device_context_accel) != 0) return -1;\n"
            for step in ("Activate", "Open", "Close", "Deactivate")
        }
        text += "".join(f"TVM_DLL int32_t TVMDeviceAccel{step}(void* context);\n" for step in hooks)
        main += hooks["Activate"]
        for call in calls:
            main += hooks["Open"] + f"  if ({call} != 0) return -1;\n" + hooks["Close"]
        main += hooks["Deactivate"]
    else:
        main += "".join(f"  if ({call} != 0) return -1;\n" for call in calls)
    if build.pools == "none":
        main += "  if (TVMBackendFreeWorkspace(1, 0, sid_1) != 0) return -1;\n"
    return text + function(
        f"int32_t {PREFIX}_{release.aot_main}({_declared(names)})", main + "  return 0;\n"
    )


# ---- table and entry ----


def octal(data: bytes) -> str:
    """A string literal as the generator writes it: bytes that are no text as octal escapes."""
    return "".join(chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in data)


def table_names(release: Release, build: Build) -> list[str]:
    names = [f"{PREFIX}_fused_add", f"{PREFIX}_fused_multiply"]
    if build.interface == "packed" and release.first >= 12:
        names.insert(0, f"{PREFIX}_run")
    if build.interface == "packed" and release.first >= 9:
        names.append(f"{PREFIX}_get_c_metadata")
    return names


def encoded_table(release: Release, names: list[str]) -> bytes:
    """The count in one byte or two, then the names; the literal adds the last NUL."""
    count = len(names).to_bytes(1 if release.first == 8 else 2, "little")
    return count + b"".join(name.encode() + b"\0" for name in names)


def table(release: Release, build: Build) -> str:
    names = table_names(release, build)
    parameters = (
        "TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code"
    )
    if release.first >= 9:
        parameters += ", void* resource_handle"
    text = "#include <tvm/runtime/crt/module.h>\n"
    text += "".join(f"{GUARD}TVM_DLL int32_t {name}({parameters});\n" for name in names)
    text += "static TVMBackendPackedCFunc _tvm_func_array[] = {\n"
    text += "".join(f"    (TVMBackendPackedCFunc){name},\n" for name in names) + "};\n"
    literal = octal(encoded_table(release, names))
    text += (
        "static const TVMFuncRegistry _tvm_func_registry = {\n"
        f'    "{literal}",    _tvm_func_array,\n}};\n'
        "static const TVMModule _tvm_system_lib = {\n    &_tvm_func_registry,\n};\n"
        "const TVMModule* TVMSystemLibEntryPoint(void) {\n    return &_tvm_system_lib;\n}\n"
    )
    return text


def pool_definitions(release: Release, build: Build) -> str:
    """The pools that the code itself brings."""
    text = ""
    if build.pools != "none":
        qualifier = "const " if release.first >= 17 else ""
        text += (
            f'__attribute__((section(".rodata.tvm"), aligned(16)))\n'
            f"static {qualifier}struct global_const_workspace {{\n"
            "  float fused_constant[6] __attribute__((packed, aligned(16)));\n"
            "} global_const_workspace = {\n"
            f"  .fused_constant = {{ {floats(network.W)} }},\n}};\n"
        )
    if build.pools == "internal":
        text += (
            '__attribute__((section(".bss.noinit.tvm"), aligned(16)))\n'
            f"static uint8_t global_workspace[{POOL_BYTES}];\n"
        )
    return text


def entry(release: Release, build: Build) -> str:
    """lib0: the table of functions, the pools, the function that applications call."""
    text = "" if build.interface == "c" else table(release, build)
    text += '#include "tvm/runtime/c_runtime_api.h"\n'
    if build.interface == "c":
        text += f"#include <{PREFIX}.h>\n"
    text += pool_definitions(release, build)
    if build.interface == "c":
        return text + _c_entry(release, build)
    if build.unpacked:
        return text + _packed_entry_of_pointers(release, build)
    return text + _packed_entry(release, build)


def _c_entry(release: Release, build: Build) -> str:
    names = main_parameters(build)
    values = ["inputs->x", "outputs->output"]
    if build.pools != "none":
        values.append("((uint8_t*)&global_const_workspace)")
        external = "workspace_pools->global_workspace"
        values.append(external if build.pools == "external" else "((uint8_t*)&global_workspace)")
    if build.device:
        values.append("devices->accel")
    main = f"{PREFIX}_{release.aot_main}"
    declared = ", ".join(f"{'uint8_t*' if 'workspace' in n else 'void*'} {n}" for n in names)
    return (
        f"{GUARD}TVM_DLL int32_t {main}({declared});\n"
        f"int32_t {PREFIX}_run({run_parameters(build)}) {{\n"
        f"  return {main}({', '.join(values)});\n}}\n"
    )


def _packed_entry(release: Release, build: Build) -> str:
    main = f"{PREFIX}_{release.aot_main}"
    if release.first == 8:
        void = "(void* args, void* type_code, int num_args, void* out_value, void* out_type_code, "
        void += "void* resource_handle)"
        call = "(args, type_code, num_args, out_value, out_type_code, resource_handle)"
        text = f"{GUARD}TVM_DLL int32_t {main}{void};\n"
        return text + function(f"int32_t {PREFIX}_run{void}", f"  return {main}{call};\n")
    tensors = ["args[0]", "args[1]"]
    body = ""
    if build.pools != "none":
        for pool in ("global_const_workspace", "global_workspace"):
            body += f"  DLTensor {pool}_dltensor = {{\n    .data = (void*)&{pool}\n  }};\n"
            body += f"  TVMValue {pool}_tvm_value = {{\n    .v_handle = &{pool}_dltensor\n  }};\n"
            tensors.append(f"{pool}_tvm_value")
    body += f"  TVMValue tensors[{len(tensors)}];\n"
    body += "".join(f"  tensors[{i}] = {value};\n" for i, value in enumerate(tensors))
    body += f"  return {main}((void*)tensors, type_code, num_args, out_value, out_type_code, "
    body += "resource_handle);\n"
    text = f"{GUARD}TVM_DLL int32_t {main}{PACKED};\n"
    return text + function(f"int32_t {PREFIX}_run{PACKED}", body)


def _packed_entry_of_pointers(release: Release, build: Build) -> str:
    main = f"{PREFIX}_{release.aot_main}"
    values = [f"((DLTensor*)(((TVMValue*)args)[{i}].v_handle))[0].data" for i in range(2)]
    if build.pools != "none":
        values += ["((uint8_t*)&global_const_workspace)", "((uint8_t*)&global_workspace)"]
    names = main_parameters(build)
    declared = ", ".join(f"{'uint8_t*' if 'workspace' in n else 'void*'} {n}" for n in names)
    text = f"{GUARD}TVM_DLL int32_t {main}({declared});\n"
    return text + function(
        f"int32_t {PREFIX}_run{PACKED}", f"  return {main}({', '.join(values)});\n"
    )


# ---- header ----


def run_parameters(build: Build) -> str:
    parts = [f"struct {PREFIX}_inputs* inputs", f"struct {PREFIX}_outputs* outputs"]
    if build.pools == "external":
        parts.append(f"struct {PREFIX}_workspace_pools* workspace_pools")
    if build.device:
        parts.append(f"struct {PREFIX}_devices* devices")
    return ", ".join(parts)


def header(release: Release, build: Build) -> str:
    """tvmgen_default.h of the C interface."""
    upper = PREFIX.upper()
    text = f"#ifndef {upper}_H_\n#define {upper}_H_\n#include <stdint.h>\n\n"
    text += '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
    if release.first >= 11:
        text += f"#define {upper}_X_SIZE 24\n#define {upper}_OUTPUT_SIZE 24\n"
    members = {"inputs": ["x"], "outputs": ["output"]}
    if build.device:
        members["devices"] = ["accel"]
    if build.pools == "external":
        members["workspace_pools"] = ["global_workspace"]
    for name, fields in members.items():
        body = "".join(f"  void* {field};\n" for field in fields)
        text += f"struct {PREFIX}_{name} {{\n{body}}};\n\n"
    text += f"int32_t {PREFIX}_run({run_parameters(build)});\n"
    if release.first >= 9:
        text += f"#define {upper}_WORKSPACE_SIZE {POOL_BYTES}\n"
    if build.pools == "external":
        text += f"#define {upper}_GLOBAL_WORKSPACE_WORKSPACE_POOL_SIZE {POOL_BYTES}\n"
    return text + f"\n#ifdef __cplusplus\n}}\n#endif\n\n#endif // {upper}_H_\n"


# ---- metadata ----


def metadata() -> str:
    """The file of the metadata, for the packed interface of releases since 0.9."""
    info = '{{\n    {{ .name = "{}", .shape = {}, .num_shape = 2, .dtype = {{2, 32, 1}} }},\n}};\n'
    text = "#include <inttypes.h>\n#include <tvm/runtime/metadata_types.h>\n"
    text += "#include <tvm/runtime/c_runtime_api.h>\n"
    for name in ("inputs", "outputs"):
        text += f"static const int64_t kTvmgenMetadata_{name}_0_shape[2] = {{2, 3}};\n"
    for name, tensor in (("inputs", "x"), ("outputs", "output0")):
        text += f"static const struct TVMTensorInfo kTvmgenMetadata_{name}[1] = "
        text += info.format(tensor, f"kTvmgenMetadata_{name}_0_shape")
    text += (
        "static const struct TVMTensorInfo kTvmgenMetadata_workspace_pools[0] = {};\n"
        "static const struct TVMConstantInfo kTvmgenMetadata_constant_pools[0] = {};\n"
        "static const struct TVMMetadata kTvmgenMetadata[1] = {{\n"
        "    .version = INT64_C(1),\n"
        "    .inputs = kTvmgenMetadata_inputs,\n    .num_inputs = 1,\n"
        "    .outputs = kTvmgenMetadata_outputs,\n    .num_outputs = 1,\n"
        "    .workspace_pools = kTvmgenMetadata_workspace_pools,\n    .num_workspace_pools = 0,\n"
        "    .constant_pools = kTvmgenMetadata_constant_pools,\n    .num_constant_pools = 0,\n"
        f'    .mod_name = "{PREFIX}",\n}}}};\n'
    )
    body = (
        "  ret_values[0].v_handle = (void*)&kTvmgenMetadata;\n"
        "  ret_tcodes[0] = kTVMOpaqueHandle;\n  return 0;\n"
    )
    parameters = (
        "(TVMValue* arg_values, int* arg_tcodes, int num_args, TVMValue* ret_values, "
        "int* ret_tcodes, void* resource_handle)"
    )
    return text + function(f"int32_t {PREFIX}_get_c_metadata{parameters}", body)


# ---- the archive ----


def sources(release: Release, build: Build) -> dict[str, str]:
    """All files by their place in the archive."""
    files = [entry(release, build)]
    if build.interface == "packed" and release.first >= 9:
        files.append(metadata())
    files.append(operators(release, build))
    folder = "codegen/host"
    placed = {f"{folder}/src/{NAME}_lib{i}.c": text for i, text in enumerate(files)}
    if build.interface == "c":
        placed[f"{folder}/include/{PREFIX}.h"] = header(release, build)
    return placed


def archive_metadata(release: Release) -> dict:
    """metadata.json of the release's version."""
    workspace = {"device": 1, "workspace_size_bytes": POOL_BYTES}
    main = {**workspace, "constants_size_bytes": 24, "io_size_bytes": 48}
    if release.first >= 11:
        main["inputs"] = {"x": {"size": 24, "dtype": "float32"}}
        main["outputs"] = {"output": {"size": 24, "dtype": "float32"}}
    module = {
        "model_name": NAME,
        "export_datetime": "2022-05-01 12:00:00Z",
        "executors": ["aot"],
        "style": "full-model",
        "target": {"1": "c -keys=cpu"} if release.first == 8 else ["c -keys=cpu"],
        "memory": {
            "functions": {
                "main": [main],
                "operator_functions": [
                    {"function_name": f"{PREFIX}_fused_add", "workspace": [workspace]}
                ],
            }
        },
    }
    if release.archive_version == 5:
        return {"version": 5, **module}
    module["external_dependencies"] = [
        {"short_name": "tvm_standalone_crt", "url": "./runtime", "url_type": "mlf_path"}
    ]
    return {"version": 7, "modules": {NAME: module}}


def archive(path: Path, release: Release, build: Build) -> Path:
    """Write the Model Library Format archive."""
    files = {name: text.encode() for name, text in sources(release, build).items()}
    files["metadata.json"] = json.dumps(
        archive_metadata(release), indent=2, sort_keys=True
    ).encode()
    files[f"parameters/{NAME}.params"] = stream.params({})
    files["src/relay.txt" if release.archive_version == 5 else f"src/{NAME}.relay"] = (
        b"#[version]\n"
    )
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path
