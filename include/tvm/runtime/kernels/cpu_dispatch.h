/*!
 * \file cpu_dispatch.h
 * \brief ISA levels for CPU dispatch: detect this processor's level, pick a library variant.
 *
 * Each level includes the features of the levels before it, except that v4 does not require
 * AVX_VNNI.
 *
 * A multi-versioned library has its functions compiled once for each level. The file that includes
 * this one is compiled for the lowest level and dispatches when the library is loaded. A level is a
 * set of features, never the name of a model. Anything that hides a feature also hides the level: a
 * hypervisor, or a system that does not save the registers.
 *
 *     x86-64  features beyond those of the level before                      registers
 *     v2      SSE3, SSSE3, SSE4.1, SSE4.2, POPCNT, CMPXCHG16B, LAHF          xmm
 *     v3      AVX, AVX2, FMA, F16C, BMI1, BMI2, LZCNT, MOVBE                 ymm
 *     v3vnni  AVX_VNNI
 *     v4      AVX512F, BW, CD, DQ, VL                                        zmm, masks
 *     v4vnni  AVX512_VNNI
 *     v4vbmi  AVX512_VBMI
 *     v4bf16  AVX512_BF16
 *     v4amx   AMX_TILE, AMX_BF16, AMX_INT8; needs the system's permission   tiles
 *
 *     AArch64 features beyond those of the level before
 *     neon    baseline
 *     dot     dot products of four bytes (SDOT, UDOT)
 *     i8mm    int8 matrix products (SMMLA, UMMLA)
 *     bf16    bfloat16 matrix products (BFMMLA)
 *
 *     32-bit ARM
 *     vfp     scalar floating point
 *     neon    vectors of 128 bits
 *
 *     RISC-V
 *     rv64    RV64GC: no vectors
 *     rvv     the vector extension 1.0 (V), registers of 128 bits or more
 */
#ifndef TVM_RUNTIME_KERNELS_CPU_DISPATCH_H_
#define TVM_RUNTIME_KERNELS_CPU_DISPATCH_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#elif (defined(__aarch64__) || defined(__arm__) || defined(__riscv)) && defined(__linux__)
#include <sys/auxv.h>
#endif

/*! \brief A processor: family, model name, and supported ISA levels. */
typedef struct tvmrt_processor {
  const char* family;
  char name[49]; /*!< "" if unknown. */
  const char* levels[8];
  int count; /*!< Number of levels. */
} tvmrt_processor;

/*! \brief Raw CPUID words of a processor, and XGETBV's registers that the system saves. */
typedef struct tvmrt_x86 {
  uint32_t leaf1_ecx;
  uint32_t leaf7_ebx, leaf7_ecx; /*!< Subleaf 0. */
  uint32_t extended1_ecx;        /*!< Leaf 0x80000001. */
  uint64_t xcr0;                 /*!< 0 without XGETBV. */
  uint32_t leaf71_eax;           /*!< Leaf 7, subleaf 1; 0 if absent. */
  uint32_t leaf7_edx;            /*!< Subleaf 0. */
  char name[49];                 /*!< Model name; "" if unknown. */
} tvmrt_x86;

/*! \brief The features of a level; all bits of all words are required. */
typedef struct tvmrt_x86_level {
  const char* name;
  uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, extended1_ecx;
  uint64_t xcr0;
  uint32_t leaf71_eax, leaf7_edx;
} tvmrt_x86_level;

enum { TVMRT_X86_LEVELS = 8 };

/*! \brief Level `number` of TVMRT_X86_LEVELS, counted from 0, the lowest. */
static inline tvmrt_x86_level tvmrt_x86_level_of(int number) {
  /* 1.ECX: SSE3 0, SSSE3 9, FMA 12, CX16 13, SSE4.1 19, SSE4.2 20, MOVBE 22, POPCNT 23, OSXSAVE 27,
   * AVX 28, F16C 29. 7.EBX: BMI1 3, AVX2 5, BMI2 8, F 16, DQ 17, CD 28, BW 30, VL 31. 7.ECX: VBMI
   * 1, VNNI 11. 0x80000001.ECX: LAHF 0, LZCNT 5. XCR0: xmm 1, ymm 2, masks 5, zmm 6 and 7, tiles 17
   * and 18. 7.1.EAX: AVX_VNNI 4, BF16 5. 7.EDX: AMX_BF16 22, AMX_TILE 24,
   * AMX_INT8 25. */
  static const tvmrt_x86_level kLevels[TVMRT_X86_LEVELS] = {
      {"v2", 0x00982201u, 0, 0, 0x01u, 0, 0, 0},
      {"v3", 0x38d83201u, 0x00000128u, 0, 0x21u, 0x06, 0, 0},
      {"v3vnni", 0x38d83201u, 0x00000128u, 0, 0x21u, 0x06, 0x10u, 0},
      {"v4", 0x38d83201u, 0xd0030128u, 0, 0x21u, 0xe6, 0, 0},
      {"v4vnni", 0x38d83201u, 0xd0030128u, 0x0800u, 0x21u, 0xe6, 0, 0},
      {"v4vbmi", 0x38d83201u, 0xd0030128u, 0x0802u, 0x21u, 0xe6, 0, 0},
      {"v4bf16", 0x38d83201u, 0xd0030128u, 0x0802u, 0x21u, 0xe6, 0x20u, 0},
      {"v4amx", 0x38d83201u, 0xd0030128u, 0x0802u, 0x21u, 0x600e6, 0x20u, 0x03400000u},
  };
  return kLevels[number];
}

/*! \brief Whether a processor has all features of a level. */
static inline int tvmrt_x86_has(const tvmrt_x86* x86, const tvmrt_x86_level* level) {
  return (x86->leaf1_ecx & level->leaf1_ecx) == level->leaf1_ecx &&
         (x86->leaf7_ebx & level->leaf7_ebx) == level->leaf7_ebx &&
         (x86->leaf7_ecx & level->leaf7_ecx) == level->leaf7_ecx &&
         (x86->extended1_ecx & level->extended1_ecx) == level->extended1_ecx &&
         (x86->xcr0 & level->xcr0) == level->xcr0 &&
         (x86->leaf71_eax & level->leaf71_eax) == level->leaf71_eax &&
         (x86->leaf7_edx & level->leaf7_edx) == level->leaf7_edx;
}

/*! \brief Query this processor; all zeros if the program is compiled for another family. */
static inline void tvmrt_x86_cpuid(tvmrt_x86* x86) {
  memset(x86, 0, sizeof(*x86));
#if defined(__x86_64__) && defined(__GNUC__)
  uint32_t a, b, c, d, brand[12];
  if (__get_cpuid(1, &a, &b, &c, &d)) x86->leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    x86->leaf7_ebx = b;
    x86->leaf7_ecx = c;
    x86->leaf7_edx = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) x86->leaf71_eax = a;
  }
  if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) x86->extended1_ecx = c;
  if (x86->leaf1_ecx >> 27 & 1) { /* the system has set OSXSAVE: XGETBV is available */
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(a), "=d"(d) : "c"(0));
    x86->xcr0 = (uint64_t)d << 32 | a;
  }
  if ((uint32_t)__get_cpuid_max(0x80000000u, NULL) >= 0x80000004u) {
    for (uint32_t i = 0; i < 3; i++) {
      uint32_t* part = brand + 4 * i;
      __get_cpuid(0x80000002u + i, part, part + 1, part + 2, part + 3);
    }
    const char* text = (const char*)brand;
    size_t length = sizeof(brand);
    while (length > 0 && (*text == ' ')) text++, length--;
    memcpy(x86->name, text, length);
    for (length = strlen(x86->name); length > 0 && x86->name[length - 1] == ' ';) {
      x86->name[--length] = '\0';
    }
  }
#endif
}

/*! \brief Determine the levels of an x86-64 processor. */
static inline void tvmrt_x86_processor(const tvmrt_x86* x86, tvmrt_processor* out) {
  memset(out, 0, sizeof(*out));
  out->family = "x86-64";
  memcpy(out->name, x86->name, sizeof(out->name));
  for (int i = 0; i < TVMRT_X86_LEVELS; i++) {
    const tvmrt_x86_level level = tvmrt_x86_level_of(i);
    if (tvmrt_x86_has(x86, &level)) out->levels[out->count++] = level.name;
  }
}

/*!
 * \brief Determine the levels of an AArch64 processor.
 * \param hwcap  Linux's AT_HWCAP; bit 20 is ASIMDDP.
 * \param hwcap2 AT_HWCAP2; bit 13 is I8MM, bit 14 BF16.
 */
static inline void tvmrt_arm_processor(uint64_t hwcap, uint64_t hwcap2, tvmrt_processor* out) {
  memset(out, 0, sizeof(*out));
  out->family = "AArch64";
  out->levels[out->count++] = "neon";
  if ((hwcap >> 20 & 1) == 0) return;
  out->levels[out->count++] = "dot";
  if ((hwcap2 >> 13 & 1) == 0) return;
  out->levels[out->count++] = "i8mm";
  if ((hwcap2 >> 14 & 1) != 0) out->levels[out->count++] = "bf16";
}

/*!
 * \brief Determine the levels of a 32-bit ARM processor with a floating-point unit, as ARMv7
 * programs need.
 * \param hwcap Linux's AT_HWCAP; bit 12 is NEON.
 */
static inline void tvmrt_arm32_processor(uint64_t hwcap, tvmrt_processor* out) {
  memset(out, 0, sizeof(*out));
  out->family = "ARMv7";
  out->levels[out->count++] = "vfp";
  if ((hwcap >> 12 & 1) != 0) out->levels[out->count++] = "neon";
}

/*!
 * \brief Determine the levels of a 64-bit RISC-V processor.
 * \param hwcap Linux's AT_HWCAP; bit 21 is V, with registers of 128 bits or more.
 */
static inline void tvmrt_riscv_processor(uint64_t hwcap, tvmrt_processor* out) {
  memset(out, 0, sizeof(*out));
  out->family = "RISC-V";
  out->levels[out->count++] = "rv64";
  if ((hwcap >> 21 & 1) != 0) out->levels[out->count++] = "rvv";
}

/*! \brief Query this processor; no levels if the program is compiled for another family. */
static inline void tvmrt_detect_processor(tvmrt_processor* out) {
#if defined(__aarch64__) && defined(__linux__)
  tvmrt_arm_processor(getauxval(16), getauxval(26), out);
#elif defined(__aarch64__)
  tvmrt_arm_processor(0, 0, out);
#elif defined(__arm__) && defined(__linux__)
  tvmrt_arm32_processor(getauxval(16), out);
#elif defined(__riscv) && defined(__linux__)
  tvmrt_riscv_processor(getauxval(16), out);
#else
  tvmrt_x86 x86;
  tvmrt_x86_cpuid(&x86);
  tvmrt_x86_processor(&x86, out);
#endif
}

/*! \brief Request AMX permission for the process from the system. Without it, remove v4amx, the
 * last of a processor's levels. */
static inline void tvmrt_request_amx_permission(tvmrt_processor* processor) {
  long rc = -1;
  if (processor->count == 0 || strcmp(processor->levels[processor->count - 1], "v4amx") != 0)
    return;
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
  /* arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA), which C libraries do not wrap */
  __asm__ volatile("syscall"
                   : "=a"(rc)
                   : "a"(158L), "D"(0x1023L), "S"(18L)
                   : "rcx", "r11", "memory");
#endif
  if (rc != 0) processor->count--;
}

/* Append words to a text, truncated to its size. */
static inline void tvmrt_text_append(char* text, size_t size, const char* words) {
  size_t used = strlen(text);
  if (used + 1 < size) (void)snprintf(text + used, size - used, "%s", words);
}

/* Append names, separated by commas. */
static inline void tvmrt_text_append_names(const char* const* names, int count, char* text,
                                           size_t size) {
  for (int i = 0; i < count; i++) {
    if (i > 0) tvmrt_text_append(text, size, ", ");
    tvmrt_text_append(text, size, names[i]);
  }
}

/* Append the processor with its levels, as the end of a sentence. */
static inline void tvmrt_text_append_processor(const tvmrt_processor* processor, char* text,
                                               size_t size) {
  tvmrt_text_append(text, size, "this processor");
  if (processor->name[0] != '\0') {
    tvmrt_text_append(text, size, " (");
    tvmrt_text_append(text, size, processor->name);
    tvmrt_text_append(text, size, ")");
  }
  tvmrt_text_append(text, size, " has ");
  tvmrt_text_append_names(processor->levels, processor->count, text, size);
  if (processor->count == 0) {
    tvmrt_text_append(text, size, "none of the levels of ");
    tvmrt_text_append(text, size, processor->family);
  }
}

/* Whether the processor has the named level. */
static inline int tvmrt_processor_has_level(const tvmrt_processor* processor, const char* name) {
  for (int i = 0; i < processor->count; i++) {
    if (strcmp(processor->levels[i], name) == 0) return 1;
  }
  return 0;
}

/*!
 * \brief Choose one of a library's levels.
 * \param processor The processor.
 * \param names The library's levels, lowest first.
 * \param count Number of names.
 * \param forced Name of the level to use; NULL or "" for the highest that the processor supports.
 * \param text [out] Error text if none fits, a sentence of fewer than `size` bytes; else unchanged.
 * \param size Bytes of text, at least 1.
 * \return The index of the level among names; -1 if none fits.
 */
static inline int tvmrt_choose_level(const tvmrt_processor* processor, const char* const* names,
                                     int count, const char* forced, char* text, size_t size) {
  const char* requested = forced == NULL ? "" : forced;
  const int is_forced = requested[0] != '\0';
  int found = -1, known = 0;
  for (int i = 0; i < count; i++) {
    if (is_forced && strcmp(names[i], requested) != 0) continue;
    known = 1;
    if (tvmrt_processor_has_level(processor, names[i])) found = i;
  }
  if (found >= 0) return found;
  text[0] = '\0';
  if (is_forced) {
    tvmrt_text_append(text, size, "TVMRT_LEVEL demands ");
    tvmrt_text_append(text, size, requested);
    tvmrt_text_append(text, size,
                      known ? ", which the processor lacks: " : ", which is not there: ");
  }
  tvmrt_text_append(text, size, "this library has code for ");
  tvmrt_text_append_names(names, count, text, size);
  tvmrt_text_append(text, size, ", and ");
  tvmrt_text_append_processor(processor, text, size);
  tvmrt_text_append(text, size,
                    is_forced ? "; unset TVMRT_LEVEL or name another"
                              : "; compile the network with a level that it has");
  return -1;
}

#endif /* TVM_RUNTIME_KERNELS_CPU_DISPATCH_H_ */
