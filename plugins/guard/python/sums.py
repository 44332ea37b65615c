"""The sum that detects changed memory, in Python and as C text.

For each block of eight words, the sum is rotated by one bit, and the words are added to it. Each
step is a bijection of the sum so far, so that a change of one word always changes the result.
Random changes of several words are missed with a probability of about 2 ** -32.
"""

from __future__ import annotations

import numpy as np

BLOCK = 32  # bytes
_MASK = 0xFFFFFFFF


def sum_of(array: np.ndarray) -> int:
    """Return the sum of an array's bytes in memory order, little-endian.

    In C text, all NaN are the same.
    """
    if array.dtype in (np.float32, np.float64):
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    padded = data + bytes(-len(data) % BLOCK)
    blocks = np.frombuffer(padded, "<u4").reshape(-1, BLOCK // 4).sum(axis=1, dtype=np.uint64)
    total = 0
    for block in blocks.tolist():
        total = (((total << 1) | (total >> 31)) + block) & _MASK
    return total


SUM_C = """\
#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#define GUARD_HELIUM 1
#else
#define GUARD_HELIUM 0
#endif

#if defined(__GNUC__)
typedef uint32_t __attribute__((may_alias)) guard_word; /* reads objects of any type */
#else
typedef uint32_t guard_word;
#endif

/* Return the sum of the last bytes, fewer than a block, or of misaligned bytes. */
static uint32_t sum_bytes(uint32_t sum, const uint8_t *bytes, size_t size) {
  while (size > 0) {
    sum = (sum << 1) | (sum >> 31);
    for (size_t i = 0; i < 32 && size > 0; ++i, --size) sum += (uint32_t)*bytes++ << (8 * (i & 3));
  }
  return sum;
}

uint32_t %(prefix)s_guard_sum(uint32_t sum, const void *data, size_t size) {
  const uint8_t *bytes = (const uint8_t *)data;
  if (((uintptr_t)data & 3) == 0) {
    const guard_word *words = (const guard_word *)data;
#if defined(__GNUC__) && defined(__thumb2__) && !GUARD_HELIUM
    /* loads of several registers, which compilers do not use here */
#define GUARD_BLOCK                                                    \\
  "ldmia %%0!, {r2-r5}\\n add %%1, r2, %%1, ror #31\\n add %%1, r3\\n" \\
  "add %%1, r4\\n add %%1, r5\\n"                                      \\
  "ldmia %%0!, {r2-r5}\\n add %%1, r2\\n add %%1, r3\\n"               \\
  "add %%1, r4\\n add %%1, r5\\n"
    for (; size >= 64; size -= 64) {
      __asm volatile(GUARD_BLOCK GUARD_BLOCK
                     : "+r"(words), "+r"(sum) : : "r2", "r3", "r4", "r5", "cc", "memory");
    }
#endif
    for (; size >= 32; size -= 32, words += 8) {
      sum = (sum << 1) | (sum >> 31);
#if GUARD_HELIUM
      sum = vaddvaq_u32(sum, vldrwq_u32((const uint32_t *)words));
      sum = vaddvaq_u32(sum, vldrwq_u32((const uint32_t *)words + 4));
#else
      sum += words[0] + words[1] + words[2] + words[3];
      sum += words[4] + words[5] + words[6] + words[7];
#endif
    }
    bytes = (const uint8_t *)words;
  }
  return sum_bytes(sum, bytes, size);
}
"""
