/*!
 * \file tvm/runtime/trace.h
 * \brief What a firmware network notes about its own runs, and how that looks in a dump.
 *
 * A network that is compiled with the options profile or record has a ring of records,
 * `struct <mod_name>_trace <mod_name>_trace` of its header: a tvmrt_trace_header, then `capacity`
 * records. A dump is the bytes of that struct as they lie in memory, taken by a debugger, written to
 * a file or sent over a wire; `tvmrt replay` reads it. All members are little-endian in a dump.
 *
 * The ring is not cleared at start-up if the linker script leaves `.bss.noinit.tvm` alone, so it can
 * be read after a watchdog's reset: the first operator without a record is the one that did not end.
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
/*! \brief In place of an operator's number: the record is of an input of the network. */
#define TVMRT_TRACE_INPUT 0xffffu

/*! \brief Whose records they are and which of them are valid; 44 bytes. */
typedef struct {
  uint32_t magic;
  uint16_t version;
  uint16_t what;     /*!< TVMRT_TRACE_CYCLES, TVMRT_TRACE_VALUES or both. */
  uint32_t network;  /*!< Tells networks apart: a hash of operators, types and weights. */
  char target[20];   /*!< What the network was compiled for, padded with zeros. */
  uint32_t capacity; /*!< Records that the ring holds. */
  uint32_t count;    /*!< Records that are valid; at most capacity. */
  uint32_t next;     /*!< Where the next record goes; the oldest one, once the ring is full. */
} tvmrt_trace_header;

/*! \brief One operator has run, or one tensor was written; 20 bytes. */
typedef struct {
  uint16_t op;     /*!< Number of the operator in the order in which they run. */
  uint16_t result; /*!< Which of the operator's results, or which input. */
  uint32_t cycles; /*!< By tvmrt_platform_cycles(). */
  uint32_t hash;   /*!< Of all elements; see kernels/trace.h. */
  /*! Smallest and largest element but for NaN: the bits of a float32, an int32_t or a uint32_t by the
   * type of the tensor. 64-bit elements are rounded to float32 or held to the range of 32 bits. */
  uint32_t min, max;
} tvmrt_trace_record;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_TRACE_H_ */
