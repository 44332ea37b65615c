"""Files that regions on other devices add to a network: their C source, and the module context
through which the library finds functions of imported modules."""

from __future__ import annotations

from tvmrt.compiler.ir import CSource, ModuleBlob, Region
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.region import region_of


def program_regions(program: Program) -> list[Region]:
    """Return the regions in the order of their steps."""
    regions = (region_of(step.group.root) for step in program.steps)
    return [region for region in regions if region is not None]


def device_modules(program: Program) -> list[ModuleBlob]:
    """Return the modules of the regions, each once."""
    codes = (region.code for region in program_regions(program))
    return list(dict.fromkeys(code for code in codes if isinstance(code, ModuleBlob)))


def add_device_files(program: Program, prefix: str, sources) -> None:
    """Add the C files, compiler flags and modules of all regions to ``sources``."""
    for region in program_regions(program):
        code = region.code
        if isinstance(code, CSource):
            name = f"{prefix}_device_{region.device.replace('-', '_')}.c"
            sources.files[name] = code.text
            sources.flags[name] = code.flags
            if code.vendor is not None:
                sources.vendors[name] = code.vendor
            if code.packaged is not None:
                sources.packaged[name] = code.packaged
            new = (flag for flag in code.link_flags if flag not in sources.link_flags)
            sources.link_flags.extend(new)
    sources.modules = device_modules(program)
    if sources.modules:
        sources.files[f"{prefix}_context.c"] = _CONTEXT


_CONTEXT = """\
#include <stddef.h>
#include <tvm/runtime/c_backend_api.h>

/* Set when the library is loaded. TVMBackendGetFuncFromEnv() uses it to find the functions of
 * imported modules. */
TVM_DLL extern void *__tvm_module_ctx;
void *__tvm_module_ctx = NULL;
"""
