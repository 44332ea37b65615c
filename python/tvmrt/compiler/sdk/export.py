"""Compiled networks as files: libraries, archives, boards, compilers."""

from tvmrt.compiler.export.atomic import filling, replacing, scratch_folder
from tvmrt.compiler.export.board_image import (
    Board,
    board_of,
    boards,
    object_commands,
    read_image_metadata,
)
from tvmrt.compiler.export.firmware_build import CFLAGS, ERRORS, runtime_sources, tools_of
from tvmrt.compiler.export.headers import runtime_headers
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.export.model_library_format import has_foreign_code, metadata
from tvmrt.compiler.export.summary import OperatorSummary, Summary
from tvmrt.compiler.export.toolchain import (
    OPTIMISE,
    build_library,
    find_compiler,
    further_flags,
    run_compiler,
)
from tvmrt.compiler.export.vendors import vendor_code, vendor_copies, vendor_includes, vendors_of

__all__ = [
    "Board", "CFLAGS", "CompiledLibrary", "ERRORS", "OPTIMISE", "OperatorSummary", "Summary",
    "board_of", "boards", "build_library", "filling", "find_compiler", "further_flags",
    "has_foreign_code", "metadata", "object_commands", "read_image_metadata", "replacing",
    "run_compiler", "runtime_headers", "runtime_sources", "scratch_folder", "tools_of",
    "vendor_code", "vendor_copies", "vendor_includes", "vendors_of",
]  # fmt: skip
