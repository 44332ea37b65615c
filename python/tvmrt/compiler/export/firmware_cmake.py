"""CMakeLists.txt that builds the archive of a firmware network, alone or in a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.ir import Vendor

from .firmware_build import CFLAGS, tools_of

_LISTS = """\
# Build lib%(name)s.a of the network. A program adds it to its own CMakeLists.txt:
#   add_subdirectory(FOLDER)
#   target_link_libraries(PROGRAM PRIVATE %(target)s)
# Other options of the compiler: -D%(upper)s_TARGET_FLAGS=..., -D%(upper)s_CFLAGS=...
cmake_minimum_required(VERSION 3.13)
%(compiler)sproject(%(target)s C)
include(CheckIncludeFile)

set(flags %(flags)s)
set(%(upper)s_TARGET_FLAGS "${flags}" CACHE STRING "Options for the processor, with ; between them")
set(%(upper)s_CFLAGS "%(cflags)s" CACHE STRING "Other options, with ; between them")
set(here ${CMAKE_CURRENT_SOURCE_DIR})
set(generated ${here}/codegen/host)
file(GLOB sources CONFIGURE_DEPENDS ${generated}/src/*.c
     ${here}/runtime/src_backend/*.c ${here}/runtime/src_runtime/firmware/*/*.c)
file(GLOB compiled CONFIGURE_DEPENDS ${generated}/lib/*.o)
set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS -std=c99)

add_library(%(target)s STATIC ${sources} ${compiled})
set_target_properties(%(target)s PROPERTIES OUTPUT_NAME %(name)s LINKER_LANGUAGE C)
target_include_directories(%(target)s PUBLIC ${generated}/include ${here}/runtime/include)
target_compile_options(%(target)s PRIVATE ${%(upper)s_TARGET_FLAGS} ${%(upper)s_CFLAGS})

# A compiler without a C library uses the headers of picolibc if it is installed.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
check_include_file(math.h %(upper)s_HAS_MATH_H)
if(NOT %(upper)s_HAS_MATH_H)
  target_compile_options(%(target)s PRIVATE --specs=picolibc.specs)
endif()
"""
# try_compile must not link a program: that needs a board's start-up code
_COMPILER = """\
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR AND NOT CMAKE_C_COMPILER
   AND NOT CMAKE_TOOLCHAIN_FILE AND NOT DEFINED ENV{CC})
  set(CMAKE_SYSTEM_NAME Generic)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  set(CMAKE_C_COMPILER %s)
endif()
"""
_VENDOR = """
# %(title)s, whose functions the network calls: -D%(variable)s=PATH, the folder with %(header)s.
# Its sources go into the library; with -D%(variable)s_SOURCES= (nothing) the program has them.
if(NOT EXISTS "${%(variable)s}/%(header)s")
  message(FATAL_ERROR "%(title)s is not in '${%(variable)s}': "
          "name the folder with %(header)s by -D%(variable)s=PATH")
endif()
if(NOT DEFINED %(variable)s_SOURCES)
  file(GLOB %(variable)s_SOURCES %(sources)s)
%(excluded)sendif()
target_sources(%(target)s PRIVATE ${%(variable)s_SOURCES})
target_include_directories(%(target)s PRIVATE ${%(variable)s}/%(include)s)
"""
_EXCLUDED = """\
  file(GLOB excluded %s)
  list(REMOVE_ITEM %s_SOURCES ${excluded} "")
"""


def cmake_lists(
    name: str,
    target: Target,
    file_flags: Mapping[str, Sequence[str]],
    vendors: Mapping[str, Vendor],
) -> str:
    """Return a CMakeLists.txt with the same library as ``makefile()``, and the same parameters."""
    compiler, _ = tools_of(target)
    names = {"name": name, "target": f"tvmgen_{name}", "upper": f"TVMGEN_{name}".upper()}
    is_cross = compiler != "cc" and " " not in compiler
    text = _LISTS % {
        **names, "flags": " ".join(target.flags), "cflags": ";".join(CFLAGS),
        "compiler": _COMPILER % compiler if is_cross else "",
    }  # fmt: skip
    for file, flags in sorted(file_flags.items()):
        if flags:
            path = f"${{generated}}/src/{Path(file).name}"
            text += (
                f"set_property(SOURCE {path} APPEND PROPERTY COMPILE_OPTIONS {' '.join(flags)})\n"
            )
    return text + "".join(_vendor(each, names) for each in dict.fromkeys(vendors.values()))


def _vendor(vendor: Vendor, names: Mapping[str, str]) -> str:
    variable = vendor.variable
    sources, excluded = (
        " ".join(f"${{{variable}}}/{pattern}" for pattern in group)
        for group in (vendor.sources, vendor.excluded)
    )
    return _VENDOR % {
        **names, "title": vendor.title, "variable": variable, "include": vendor.include,
        "header": f"{vendor.include}/{vendor.header}", "sources": sources,
        "excluded": _EXCLUDED % (excluded, variable) if excluded else "",
    }  # fmt: skip
