"""QEMU's Xtensa simulator: runs a network's archive between two files.

picolibc has no memory map and start-up for these processors, so both are here; files use the
simulator's own calls.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
from archives import unpack

TOOL = "xtensa-lx106-elf"
EMULATOR = ("qemu-system-xtensa", "-M", "sim", "-cpu", "lx106")

# The reset vector is at the start of the ROM; literals precede the code that reads them.
_LAYOUT = """\
ENTRY(_reset)
MEMORY { rom : ORIGIN = 0x50000000, LENGTH = 64M
         memory : ORIGIN = 0x60000000, LENGTH = 64M }
SECTIONS {
  .text : { KEEP(*(.reset)) *(.literal .literal.* .text .text.*) } > rom
  .rodata : { *(.rodata .rodata.*) } > rom
  .data : ALIGN(16) { *(.data .data.*) } > memory
  .bss (NOLOAD) : ALIGN(16) {
    _bss = .; *(.bss .bss.* COMMON) . = ALIGN(4); _bss_end = .; . += 0x4000; _stack = .;
  } > memory
}
"""

_PROGRAM = """\
#include <stdint.h>
#include <tvmgen_net.h>

extern char _bss[], _bss_end[];
static _Alignas(16) uint8_t in[%(in_bytes)d], out[%(out_bytes)d];

static int32_t simulator(int32_t what, int32_t a, const volatile void *b, int32_t c) {
  register int32_t a2 __asm("a2") = what;
  register int32_t a3 __asm("a3") = a;
  register int32_t a4 __asm("a4") = (int32_t)(intptr_t)b;
  register int32_t a5 __asm("a5") = c;
  __asm volatile("simcall" : "+r"(a2), "+r"(a3) : "r"(a4), "r"(a5) : "memory");
  return a2;
}

enum { LEAVE = 1, READ = 3, WRITE = 4 };

__attribute__((noreturn, used)) void begin(void) {
  struct tvmgen_net_inputs inputs = {in};
  struct tvmgen_net_outputs outputs = {out};
  for (volatile char *at = _bss; at < _bss_end; ++at) *at = 0;
  if (simulator(READ, 0, in, sizeof(in)) != sizeof(in)) simulator(LEAVE, 2, NULL, 0);
  const int32_t code = tvmgen_net_run(&inputs, &outputs);
  if (simulator(WRITE, 1, out, sizeof(out)) != sizeof(out)) simulator(LEAVE, 3, NULL, 0);
  for (;;) simulator(LEAVE, code == 0 ? 0 : 4, NULL, 0);
}

__asm(".section .reset, \\"ax\\"\\n.global _reset\\n_reset:\\nj 1f\\n.align 4\\n"
      "2: .word _stack, begin\\n1: l32r sp, 2b\\nl32r a0, 2b + 4\\njx a0\\n.text");
"""

# Functions that the chip has in its ROM and the compiler's library lacks. Subnormal numbers
# become zero here.
_ROM = """\
#include <stdint.h>
typedef union { float f; uint32_t u; } word;

static uint64_t product(uint32_t a, uint32_t b) {
  const uint32_t al = a & 0xFFFF, ah = a >> 16, bl = b & 0xFFFF, bh = b >> 16;
  return ((uint64_t)(ah * bh) << 32) + ((uint64_t)(al * bh) << 16) + ((uint64_t)(ah * bl) << 16) +
         al * bl;
}
/* m * 2^e, rounded to nearest, ties to even */
static float rounded(uint32_t sign, uint64_t m, int e) {
  uint32_t rest = 0;
  word to = {.u = sign};
  if (m == 0) return to.f;
  for (; m >> 25; m >>= 1, e++) rest |= (uint32_t)m & 1;
  for (; !(m >> 24); m <<= 1) e--;
  uint32_t q = (uint32_t)(m >> 1);
  if ((m & 1) && (rest || (q & 1))) q++;
  if (q >> 24) q >>= 1, e++;
  e += 151;
  if (e > 0) to.u |= e > 254 ? 0x7F800000 : ((uint32_t)e << 23) | (q & 0x7FFFFF);
  return to.f;
}
static int exponent(word w) { return (int)(w.u >> 23 & 255); }
static uint32_t bits(word w) { return exponent(w) ? (w.u & 0x7FFFFF) | 0x800000 : 0; }

float __mulsf3(float x, float y) {
  const word a = {x}, b = {y};
  const int e = exponent(a) + exponent(b) - 300;
  return rounded((a.u ^ b.u) & 0x80000000, product(bits(a), bits(b)), e);
}
float __addsf3(float x, float y) {
  word a = {x}, b = {y};
  if (exponent(a) < exponent(b)) { const word c = a; a = b; b = c; }
  const int apart = exponent(a) - exponent(b);
  if (apart > 36) return a.f;
  const int64_t first = (int64_t)bits(a) << 36, second = (int64_t)bits(b) << (36 - apart);
  const int64_t sum = (a.u >> 31 ? -first : first) + (b.u >> 31 ? -second : second);
  return rounded(sum < 0 ? 0x80000000 : 0, (uint64_t)(sum < 0 ? -sum : sum), exponent(a) - 186);
}
float __floatsisf(int32_t n) {
  return rounded(n < 0 ? 0x80000000 : 0, n < 0 ? 0 - (uint32_t)n : (uint32_t)n, 0);
}
int64_t __muldi3(int64_t a, int64_t b) {
  const uint32_t al = (uint32_t)a, bl = (uint32_t)b;
  const uint32_t upper = al * (uint32_t)(b >> 32) + bl * (uint32_t)(a >> 32);
  return (int64_t)(product(al, bl) + ((uint64_t)upper << 32));
}
int32_t __divsi3(int32_t a, int32_t b) {
  uint32_t n = a < 0 ? 0 - (uint32_t)a : (uint32_t)a, by = b < 0 ? 0 - (uint32_t)b : (uint32_t)b;
  uint32_t q = 0, rest = 0;
  for (int i = 31; i >= 0; i--) {
    rest = rest << 1 | (n >> i & 1);
    if (rest >= by) rest -= by, q |= 1u << i;
  }
  return (int32_t)((a < 0) != (b < 0) ? 0 - q : q);
}
"""


def missing_tool() -> str | None:
    """Return the first missing command for building and running images, or None."""
    for tool in (f"{TOOL}-gcc", f"{TOOL}-ar", EMULATOR[0], "make"):
        if shutil.which(tool) is None:
            return tool
    return None


def run_network(library, image: np.ndarray, folder: Path) -> np.ndarray:
    """Return the output of a network ``net`` with one float input and one float output."""
    library.export(folder / "net.tar")
    unpack(folder / "net.tar", folder / "net")
    subprocess.run(["make", "-s"], cwd=folder / "net", check=True)
    (folder / "layout.ld").write_text(_LAYOUT)
    (folder / "rom.c").write_text(_ROM)
    (output,) = library.summary.outputs
    sizes = {"in_bytes": image.nbytes, "out_bytes": output.nbytes}
    (folder / "main.c").write_text(_PROGRAM % sizes)
    includes = [
        f"-I{folder / 'net' / part}" for part in ("codegen/host/include", "runtime/include")
    ]
    subprocess.run(
        [f"{TOOL}-gcc", "-nostartfiles", f"-T{folder / 'layout.ld'}",
         "-Os", "-mlongcalls", *includes, folder / "main.c", folder / "net/libnet.a",
         folder / "rom.c", "-Wl,--gc-sections", "-lm", "-lc", "-lgcc", "-o", folder / "image.elf"],
        check=True,
    )  # fmt: skip
    command = [*EMULATOR, "-display", "none", "-serial", "none", "-monitor", "none"]
    done = subprocess.run(
        [*command, "-semihosting", "-kernel", folder / "image.elf"],
        input=image.tobytes(), capture_output=True, check=True, timeout=600,
    )  # fmt: skip
    return np.frombuffer(done.stdout, np.float32).reshape(output.shape)
