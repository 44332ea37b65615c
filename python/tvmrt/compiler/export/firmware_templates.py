"""Templates in an archive that a program copies and completes: limits and board functions.

Project generators for older firmware runtimes expect them in ``templates/``. Networks compiled by
tvmrt do not need them; code around them that was written for those runtimes may.
"""

from __future__ import annotations

import re
from pathlib import Path

from tvmrt.libinfo import find_include_path

_LIMIT = re.compile(r"(/\*! [^\n]*\*/)\n#ifndef TVM_CRT_\w+\n(#define [^\n]*)\n#endif")


def templates() -> dict[str, str]:
    """Return texts by file name."""
    return {"crt_config.h.template": _config(), "platform.c.template": _PLATFORM}


def _config() -> str:
    """Return the limits of the firmware headers with their defaults, to be changed."""
    header = Path(find_include_path()[0], "tvm", "runtime", "crt", "config_defaults.h")
    limits = _LIMIT.findall(header.read_text(encoding="utf-8"))
    lines = [
        "/* Limits of the firmware headers: copy it to crt_config.h on the include path and change",
        " * the values that do not fit the program. */",
        "#ifndef TVM_RUNTIME_CRT_CRT_CONFIG_H_",
        "#define TVM_RUNTIME_CRT_CRT_CONFIG_H_",
        "",
    ]
    for comment, definition in limits:
        lines += [comment, definition]
    return "\n".join([*lines, "", "#endif /* TVM_RUNTIME_CRT_CRT_CONFIG_H_ */", ""])


_PLATFORM = """\
/*
 * Board functions for code that was written for older firmware runtimes: copy this file to
 * platform.c and complete it. Networks compiled by tvmrt do not call them; they return error codes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tvm/runtime/crt/platform.h>

/* Bytes for operators that allocate workspaces while they run. Networks compiled by tvmrt are
 * planned statically and need none; more than 0 needs libtvm_backend.a. */
#ifndef TVM_WORKSPACE_SIZE_BYTES
#define TVM_WORKSPACE_SIZE_BYTES 0
#endif

#if TVM_WORKSPACE_SIZE_BYTES > 0
static uint64_t workspace[(TVM_WORKSPACE_SIZE_BYTES + 7) / 8];
#endif

tvm_crt_error_t TVMPlatformInitialize(void) {
#if TVM_WORKSPACE_SIZE_BYTES > 0
  tvmrt_workspace_init(workspace, sizeof(workspace));
#endif
  return kTvmErrorNoError;
}

/* Reset the board, or loop until a debugger attaches. */
void TVMPlatformAbort(tvm_crt_error_t code) {
  (void)code;
  for (;;) {
  }
}

size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
  const int length = vsnprintf(out_buf, out_buf_size_bytes, fmt, args);
  return length < 0 ? 0 : (size_t)length;
}

/* Start and read a hardware timer. */
tvm_crt_error_t TVMPlatformTimerStart(void) { return kTvmErrorFunctionCallNotImplemented; }

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
  *elapsed_time_seconds = 0;
  return kTvmErrorFunctionCallNotImplemented;
}

tvm_crt_error_t TVMPlatformBeforeMeasurement(void) { return kTvmErrorNoError; }

tvm_crt_error_t TVMPlatformAfterMeasurement(void) { return kTvmErrorNoError; }

/* Read the board's random number generator. */
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes) {
  (void)buffer;
  (void)num_bytes;
  return kTvmErrorFunctionCallNotImplemented;
}
"""
