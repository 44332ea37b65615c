"""Sources and Makefile that an archive of a firmware network needs to be built."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.ir import Vendor
from tvmrt.libinfo import find_firmware_path

# Files of the firmware libraries by executor: everything that is called directly or indirectly by
# TVMAotExecutor_Create and TVMAotExecutorModule_Register, or by TVMGraphExecutor_Create,
# TVMGraphExecutorModule_Register and tvmrt_graph_create. Graphs with dynamic dimensions also call
# the functions of crt/graph_dims.h, and have error texts for sizes that do not fit.
# tests/python/export/test_runtime_files.py checks the lists with the compiler.
BACKEND = "src_backend"
AOT, GRAPH, REMOTE = (f"src_runtime/firmware/{part}" for part in ("aot", "graph", "remote"))
SIZED_GRAPH = "sized graph"
ERRORS = "errors"
SERVER = "server"  # of remote calls: callees of MicroTVMRpcServerInit and MicroTVMRpcServerLoop
EXECUTOR_FILES = {
    "aot": {
        BACKEND: "compiler.h error_slot.h func_call.c func_registry.c mem_functions.h "
        "mutable_registry.c stack_allocator.c string_functions.h workspace.c",
        AOT: "aot_executor.c aot_metadata.c aot_metadata.h aot_module.c dtype.h globals.c "
        "modules.c packed.h packed_func.h registry.h tensor_size.c tensor_size.h",
    },
    "graph": {
        BACKEND: "compiler.h error_slot.h func_registry.c mem_functions.h mutable_registry.c "
        "stack_allocator.c string_functions.h workspace.c",
        AOT: "dtype.c dtype.h dtype_bits.c globals.c modules.c packed.h packed_func.h registry.h "
        "tensor_size.c tensor_size.h",
        GRAPH: "graph.h graph_arena.c graph_executor.c graph_heap.c graph_module.c graph_params.c "
        "graph_read.c graph_walk.h json.c json.h params_reader.c params_reader.h",
    },
    SERVER: {
        BACKEND: "compiler.h mem_functions.h page_allocator.c string_functions.h",
        AOT: "devices.c dtype.h modules.c packed.h packed_func.h registry.h tensor_size.c "
        "tensor_size.h",
        REMOTE: "frames.c frames.h microtvm_rpc_server.c remote.h remote_board.c remote_handles.c "
        "remote_packets.c remote_values.c",
    },
    # callees of device C code in packages: TVMAPISetLastError() with TVMGetLastError()
    ERRORS: {BACKEND: "compiler.h error_slot.c error_slot.h last_error.c"},
    SIZED_GRAPH: {BACKEND: "error_slot.c", GRAPH: "graph_dims.c"},
}

# Headers that programs for TVM's archives include, although nothing here does.
APPLICATION_HEADERS = """\
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/packed_func.h>
"""

# Commands of the compiler and the archiver.
TOOLS = {
    "cortex": ("arm-none-eabi-gcc", "arm-none-eabi-ar"),
    "riscv32": ("riscv64-unknown-elf-gcc", "riscv64-unknown-elf-ar"),
    "rv32": ("riscv64-unknown-elf-gcc", "riscv64-unknown-elf-ar"),
    "xtensa-lx106": ("xtensa-lx106-elf-gcc", "xtensa-lx106-elf-ar"),
    "xtensa-lx6": ("xtensa-esp32-elf-gcc", "xtensa-esp32-elf-ar"),
    "xtensa-lx7": ("xtensa-esp32s3-elf-gcc", "xtensa-esp32s3-elf-ar"),
    "wasm32": ("python3 -m ziglang cc -target wasm32-wasi", "python3 -m ziglang ar"),
}

# Default options of the archive's Makefile.
CFLAGS = ("-Os", "-ffunction-sections", "-fdata-sections")


def runtime_sources(executors: Iterable[str], foreign: bool = False) -> dict[str, str]:
    """Return the C files of the firmware libraries that a network may call, by path.

    Generated code calls none of them directly, except for graphs with dynamic dimensions. Programs
    run a network through its ``executors``. Foreign C code (``foreign``: bodies of custom
    operators, code of devices) may call all of ``c_backend_api.h``.
    """
    root = Path(find_firmware_path())
    names = {
        f"{folder}/{name}"
        for executor in executors
        for folder, row in EXECUTOR_FILES[executor].items()
        for name in row.split()
    }
    if foreign:
        names |= {f"{BACKEND}/{path.name}" for path in (root / BACKEND).glob("*.[ch]")}
    return {name: (root / name).read_text() for name in sorted(names)}


def tools_of(target: Target) -> tuple[str, str]:
    """Return the default commands of C compiler and archiver for a target: those that its name
    begins with, or of its ``triple``."""
    for start, commands in TOOLS.items():
        if target.base.startswith(start):
            return commands
    prefix = f"{target.triple}-" if target.triple and not target.hosted else ""
    return (f"{prefix}gcc", f"{prefix}ar") if prefix else ("cc", "ar")


# Rule for objects of C files without assembly kernels, and with them.
_COMPILE = "\t$(CC) $(flags) -c $< -o $@\n"
_COMPILE_ASSEMBLY = """\
\t$(CC) $(flags) -c $< -o $@ 2>$@.said || \\
\t{ $(CC) $(flags) -DTVMRT_MICRO_ASM=0 -c $< -o $@ 2>$@.in-c && \\
\tmv $@.in-c $@.said && touch in-c.stamp; } || \\
\t{ cat $@.said >&2; rm -f $@.said $@.in-c; exit 1; }
\t@cat $@.said >&2; rm -f $@.said
"""
# Report once, at the end, if C was used instead of assembly, by the headers or by the rule above.
_ERROR_IF_NO_C = """\
ifeq ($(findstring TVMRT_MICRO_ASM,$(flags)),)
\t@echo TVMRT_MICRO_ASM | $(CC) $(flags) -include $(kernels) -E -P -x c - 2>/dev/null | \\
\ttail -n 1 | grep -qx 0 && touch in-c.stamp || true
\t@test ! -f in-c.stamp || echo "note: with this compiler and these options the int8 kernels" \\
\t"are C in place of assembly: the results are the same, runs take longer" >&2
\t@rm -f in-c.stamp
endif
"""
# Report if Helium vectors are missing on processors that have them.
_ERROR_IF_NO_HELIUM = """\
\t@echo TVMRT_MICRO_CAN_MVE | $(CC) $(flags) -include $(kernels) -E -P -x c - 2>/dev/null | \\
\ttail -n 1 | grep -qx 1 || echo "note: with these options there is no Helium, for which the" \\
\t"network was compiled: the results are the same, runs take longer" >&2
"""
_KERNELS = "tvm/runtime/kernels/board/common_i8.h"
# Inlining by clang at -Os costs 10 % code size for 1 % of the time next to loops in assembly.
_LEVEL = """\
# clang's code is as small as GCC's at -Oz, and as fast, as the loops are assembly.
level := $(if $(findstring __clang__,$(shell $(CC) -E -dM -x c /dev/null 2>/dev/null)),-Oz,-Os)
"""

_MAKEFILE = """\
# Build lib%(name)s.a of the network. For another compiler or other options: make CC=... CFLAGS=...
# A program that links it includes codegen/host/include/ and runtime/include/.
ifeq ($(origin CC),default)
CC = %(compiler)s
endif
# A compiler without a C library uses the headers of picolibc if it is installed.
ifneq ($(shell $(CC) -include math.h -E -x c /dev/null >/dev/null 2>&1 || echo none),)
override CC += --specs=picolibc.specs
endif
ifeq ($(origin AR),default)
AR = %(archiver)s
endif
%(level)sCFLAGS ?= %(cflags)s
TARGET_FLAGS ?= %(flags)s
flags = -std=c99 $(TARGET_FLAGS) $(CFLAGS) -Icodegen/host/include -Iruntime/include

%(kernels)sruntime := runtime/src_backend runtime/src_runtime/firmware/*
sources := $(wildcard codegen/host/src/*.c $(runtime:=/*.c))
objects := $(sources:.c=.o)
compiled := $(wildcard codegen/host/lib/*.o)
headers := $(wildcard codegen/host/include/*.h)
# Forces a rebuild if these files replaced others with the same date.
content := content-%(content)s.stamp
%(others)s
lib%(name)s.a: $(objects) $(compiled)%(built)s
\trm -f $@
\t$(AR) rcs $@ $^
%(tell)s
$(content):
\trm -f content-*.stamp
\ttouch $@

%%.o: %%.c $(headers) $(content)
%(build)s
%(more)sclean:
\trm -f lib%(name)s.a $(objects) $(content)%(built)s

.PHONY: clean
"""


def makefile(
    name: str,
    target: Target,
    file_flags: Mapping[str, Sequence[str]],
    content: str,
    vendors: Mapping[str, Vendor],
    headers: Container[str],
) -> str:
    """Return a Makefile for ``lib<name>.a`` from the archive's sources, for the network's target.

    ``file_flags``: additional options of single C files, by name. ``vendors``: libraries that such
    files call and the user provides. ``content`` changes with the sources: all files have the same
    date, so make could not detect that an archive was unpacked over an older one. ``headers``:
    headers of the package in the archive; kernels in assembly are built in C if the compiler does
    not support it.
    """
    compiler, archiver = tools_of(target)
    flags = " ".join(target.flags)
    more = _file_rules(file_flags, vendors)
    used_vendors = list(dict.fromkeys(vendors.values()))
    others = "".join(map(_vendor_rules, used_vendors))
    built = "".join(f" $({vendor.variable}_OBJECTS)" for vendor in used_vendors)
    assembly = not {"dsp", "rvv"}.isdisjoint(target.board or ()) and _KERNELS in headers
    cflags, level = " ".join(CFLAGS), ""
    if assembly and "dsp" in (target.board or ()):
        cflags, level = cflags.replace("-Os", "$(level)"), _LEVEL
    build, tell = (_COMPILE_ASSEMBLY, _ERROR_IF_NO_C) if assembly else (_COMPILE, "")
    if assembly and "mve" in (target.board or ()):
        tell += _ERROR_IF_NO_HELIUM
    return _MAKEFILE % {
        "name": name, "compiler": compiler, "archiver": archiver, "cflags": cflags,
        "flags": flags, "level": level, "kernels": f"kernels := {_KERNELS}\n" if assembly else "",
        "content": content, "others": others, "built": built, "tell": tell, "build": build,
        "more": more,
    }  # fmt: skip


def _file_rules(file_flags: Mapping[str, Sequence[str]], vendors: Mapping[str, Vendor]) -> str:
    """Return the options of single files."""
    options = {file: list(flags) for file, flags in file_flags.items()}
    for file, vendor in vendors.items():
        options.setdefault(file, []).append(f"-I$({vendor.variable})/{vendor.include}")
    return "".join(
        f"codegen/host/src/{Path(file).stem}.o: TARGET_FLAGS += {' '.join(flags)}\n"
        for file, flags in sorted(options.items())
        if flags
    )


def _vendor_rules(vendor: Vendor) -> str:
    """Return rules that compile the user's sources of a library, with their own C dialect."""
    variable, folder = vendor.variable, vendor.variable.lower()
    patterns, excluded = (
        " ".join(f"$({variable})/{pattern}" for pattern in group)
        for group in (vendor.sources, vendor.excluded)
    )
    sources = f"$(wildcard {patterns})"
    if excluded:
        sources = f"$(filter-out $(wildcard {excluded}),{sources})"
    header = f"{vendor.include}/{vendor.header}"
    return f"""
# {vendor.title}, whose functions the network calls: make {variable}=PATH, the folder with {header}.
# Its sources go into the library; with {variable}_SOURCES= (nothing) the program has them already.
ifneq ($(MAKECMDGOALS),clean)
ifeq ($(wildcard $({variable})/{header}),)
$(error {vendor.title} is not in '$({variable})': name the folder with {header} by {variable}=PATH)
endif
endif
{variable}_SOURCES ?= $(sort {sources})
{variable}_CFLAGS ?= $(CFLAGS)
{variable}_OBJECTS := $(patsubst $({variable})/%.c,{folder}/%.o,$({variable}_SOURCES))

{folder}/%.o: $({variable})/%.c
\t@mkdir -p $(@D)
\t$(CC) $(TARGET_FLAGS) $({variable}_CFLAGS) -I$({variable})/{vendor.include} -c $< -o $@
"""
