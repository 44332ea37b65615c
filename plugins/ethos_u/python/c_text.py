"""C code of regions, which passes their command streams to Arm's driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvmrt.compiler.sdk.arithmetic import round_up
from tvmrt.compiler.sdk.graph import Region
from tvmrt.plugins.ethos_u.command_stream import CommandStream

ALIGN_BYTES = 16  # alignment of each base address, required by the driver

HEAD = """\
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tvm/runtime/c_backend_api.h>

/* The driver's header if it is on the include path, otherwise the same declarations. */
#if defined(__has_include)
#if __has_include(<ethosu_driver.h>)
#include <ethosu_driver.h>
#define TVMGEN_ETHOS_U_HAS_DRIVER 1
#endif
#endif
#ifndef TVMGEN_ETHOS_U_HAS_DRIVER
#ifdef __cplusplus
extern "C" {
#endif
struct ethosu_driver;
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg);
#ifdef __cplusplus
}
#endif
#define ethosu_invoke(drv, data, size, base, sizes, count) \\
  ethosu_invoke_v3(drv, data, size, base, sizes, count, NULL)
#endif

/* Run one command stream. The driver takes addresses as integers; they are multiples of 16. */
static int32_t run_commands(const uint8_t *commands, int size, uint64_t *bases, const size_t *sizes,
                            int count) {
  for (int i = 0; i < count; ++i) {
    if ((bases[i] & 15u) != 0) {
      TVMAPISetLastError("Ethos-U: align inputs, outputs and pools to multiples of 16");
      return -1;
    }
  }
  struct ethosu_driver *driver = ethosu_reserve_driver();
#ifndef ETHOSU_MULTI_VARIANT /* if defined, the driver selects the device */
  if (driver == NULL) {
    TVMAPISetLastError("Ethos-U: no driver is free; call ethosu_init() before the network runs");
    return -1;
  }
#endif
  const int code = ethosu_invoke(driver, commands, size, bases, sizes, count);
  ethosu_release_driver(driver);
  if (code != 0) {
    TVMAPISetLastError("Ethos-U: ethosu_invoke() failed; the commands are for ACCELERATOR");
    return -1;
  }
  return 0;
}
"""

# The network's functions have C linkage if its files are compiled as C++.
BEGIN_C = '#ifdef __cplusplus\nextern "C" {\n#endif\n'
END_C = "#ifdef __cplusplus\n}\n#endif\n"


def source_text(
    regions: Sequence[Region], streams: Mapping[str, CommandStream], origin: str, accelerator: str
) -> str:
    """Return the whole text; ``streams`` by the regions' symbols, ``origin`` names their origin."""
    parts = [f"/* Compiled by {origin} */", HEAD.replace("ACCELERATOR", accelerator), BEGIN_C]
    for region in regions:
        parts.append(_region(region, streams[region.symbol]))
    return "\n".join([*parts, END_C])


def scratch_bytes(stream: CommandStream) -> int:
    """Return a region's scratch bytes: the scratch memory, followed by its fast part."""
    return round_up(stream.scratch_bytes, ALIGN_BYTES) + stream.fast_bytes


def _region(region: Region, stream: CommandStream) -> str:
    """Return the function of a region; commands and weights are constants of the network."""
    values = [*region.inputs, *region.outputs]
    count = len(region.inputs)
    names = [f"in{i}" for i in range(count)] + [f"out{i}" for i in range(len(region.outputs))]
    declared = [f"{v.dtype.c} *{name}" for name, v in zip(names, values)]
    declared[:count] = [f"const {text}" for text in declared[:count]]
    declared += ["const uint8_t *commands", "const uint8_t *weights"]
    declared += ["uint8_t *scratch"] if scratch_bytes(stream) else []
    signature = f"int32_t {region.symbol}({', '.join(declared)})"
    sizes = [v.type.nbytes for v in values]
    copied = [] if stream.is_separate else list(zip(names, stream.offsets, sizes))
    body = [
        *(f"  memcpy(scratch + {offset}, {name}, {n});" for name, offset, n in copied[:count]),
        *_call(stream, list(zip(names, sizes)) if stream.is_separate else []),
        *(f"  memcpy({name}, scratch + {offset}, {n});" for name, offset, n in copied[count:]),
        "  return 0;",
    ]
    return "\n".join([f"{signature};", f"{signature} {{", *body, "}", ""])


def constants(stream: CommandStream) -> dict[str, np.ndarray]:
    """Return the constants that follow the function's tensors."""
    weights = stream.weights or bytes(ALIGN_BYTES)
    return {
        "commands": np.frombuffer(stream.commands, np.uint8),
        "weights": np.frombuffer(weights, np.uint8),
    }


def _call(stream: CommandStream, tensors: Sequence[tuple[str, int]]) -> list[str]:
    """Return the call with the stream's base addresses and their sizes."""
    fast = round_up(stream.scratch_bytes, ALIGN_BYTES)
    main = ("scratch", stream.scratch_bytes) if scratch_bytes(stream) else ("weights", 0)
    rows = [
        ("weights", len(stream.weights)),
        main,
        (f"scratch + {fast}", stream.fast_bytes) if stream.fast_bytes else main,
        *tensors,
    ]
    bases = [f"      (uint64_t)(uintptr_t)({what})," for what, _ in rows]
    sizes = ", ".join(str(nbytes) for _, nbytes in rows)
    return [
        f"  uint64_t bases[{len(rows)}] = {{",
        *bases,
        "  };",
        f"  static const size_t sizes[{len(rows)}] = {{{sizes}}};",
        f"  const int32_t code = run_commands(commands, {len(stream.commands)}, bases, sizes, "
        f"{len(rows)});",
        "  if (code != 0) return code;",
    ]
