/*!
 * \file cpu_requirements.h
 * \brief The ISA level that code compiled with the current flags needs.
 *
 * A library compiled for one processor exports this level so that its loader can check it. Without
 * the check, an older processor would hit an illegal instruction in the middle of a run.
 */
#ifndef TVM_RUNTIME_KERNELS_CPU_REQUIREMENTS_H_
#define TVM_RUNTIME_KERNELS_CPU_REQUIREMENTS_H_

#if defined(__SSE4_2__) && defined(__POPCNT__)
#define TVMRT_HAS_V2 1
#else
#define TVMRT_HAS_V2 0
#endif
#if TVMRT_HAS_V2 && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && \
    defined(__BMI__) && defined(__BMI2__) && defined(__LZCNT__) && defined(__MOVBE__)
#define TVMRT_HAS_V3 1
#else
#define TVMRT_HAS_V3 0
#endif
#if TVMRT_HAS_V3 && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
#define TVMRT_HAS_V4 1
#else
#define TVMRT_HAS_V4 0
#endif

/*!
 * \brief The highest level of cpu_dispatch.h whose instructions the compiler may all use, "" for none.
 *
 * A partly enabled level does not count: it would reject the processor that has just that part.
 */
#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD) && \
    defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define TVMRT_REQUIRED_LEVEL "bf16"
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8)
#define TVMRT_REQUIRED_LEVEL "i8mm"
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define TVMRT_REQUIRED_LEVEL "dot"
#elif defined(__arm__) && defined(__ARM_NEON)
#define TVMRT_REQUIRED_LEVEL "neon"
#elif defined(__riscv_vector)
#define TVMRT_REQUIRED_LEVEL "rvv"
#elif TVMRT_HAS_V4 && defined(__AVX512VNNI__) && defined(__AVX512VBMI__) && defined(__AVX512BF16__)
#define TVMRT_REQUIRED_LEVEL "v4bf16"
#elif TVMRT_HAS_V4 && defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
#define TVMRT_REQUIRED_LEVEL "v4vbmi"
#elif TVMRT_HAS_V4 && defined(__AVX512VNNI__)
#define TVMRT_REQUIRED_LEVEL "v4vnni"
#elif TVMRT_HAS_V4
#define TVMRT_REQUIRED_LEVEL "v4"
#elif TVMRT_HAS_V3 && defined(__AVXVNNI__)
#define TVMRT_REQUIRED_LEVEL "v3vnni"
#elif TVMRT_HAS_V3
#define TVMRT_REQUIRED_LEVEL "v3"
#elif TVMRT_HAS_V2
#define TVMRT_REQUIRED_LEVEL "v2"
#else
#define TVMRT_REQUIRED_LEVEL ""
#endif

#endif /* TVM_RUNTIME_KERNELS_CPU_REQUIREMENTS_H_ */
