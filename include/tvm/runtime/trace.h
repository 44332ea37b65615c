/*!
 * \file tvm/runtime/trace.h
 * \brief Run trace of a firmware network, and the format of its dump.
 *
 * A network that is compiled with the options profile or record has a ring buffer of records,
 * `struct <mod_name>_trace <mod_name>_trace` of its header: a tvmrt_trace_header, then `capacity`
 * records. A dump is the raw bytes of that struct, taken by a debugger, written to a file or sent
 * over a wire; `tvmrt replay` reads it. All members are little-endian in a dump.
 *
 * The ring buffer is not cleared at start-up if the linker script leaves `.bss.noinit.tvm` alone,
 * so it can be read after a watchdog reset: the first operator without a record did not end.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_TRACE_H_
#define TVM_RUNTIME_TRACE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief First four bytes of a dump: "TVTR". */
#define TVMRT_TRACE_MAGIC 0x52545654u
/*! \brief Version of the layout described here. */
#define TVMRT_TRACE_VERSION 1u
/*! \brief Bit of `what`: records hold cycles. */
#define TVMRT_TRACE_CYCLES 1u
/*! \brief Bit of `what`: records hold hash, min and max, one record for each tensor written. */
#define TVMRT_TRACE_VALUES 2u
/*! \brief Operator number of a record of a network input. */
#define TVMRT_TRACE_INPUT 0xffffu

/*! \brief Identifies the network and the valid records; 44 bytes. */
typedef struct {
  uint32_t magic;
  uint16_t version;
  uint16_t what;     /*!< TVMRT_TRACE_CYCLES, TVMRT_TRACE_VALUES or both. */
  uint32_t network;  /*!< Identifies the network: a hash of operators, types and weights. */
  char target[20];   /*!< Target of the compilation, padded with zeros. */
  uint32_t capacity; /*!< Capacity of the ring buffer in records. */
  uint32_t count;    /*!< Number of valid records; at most capacity. */
  uint32_t next;     /*!< Index of the next record; of the oldest once the ring is full. */
} tvmrt_trace_header;

/*! \brief One operator has run, or one tensor was written; 20 bytes. */
typedef struct {
  uint16_t op;     /*!< Index of the operator in execution order. */
  uint16_t result; /*!< Index of the operator's result, or of the input. */
  uint32_t cycles; /*!< By tvmrt_platform_cycles(). */
  uint32_t hash;   /*!< Hash of all elements; see kernels/trace.h. */
  /*! Smallest and largest element except NaN: the bits of a float32, an int32_t or a uint32_t by
   * the type of the tensor. 64-bit elements are rounded to float32 or clamped to 32 bits. */
  uint32_t min, max;
} tvmrt_trace_record;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_TRACE_H_ */
