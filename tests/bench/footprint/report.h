/* Instruction counts, printed if the image runs with a C library; no effect if only its size is
   measured. count.h is written for the board. */
#ifndef TVMRT_TESTS_BENCH_FOOTPRINT_REPORT_H_
#define TVMRT_TESTS_BENCH_FOOTPRINT_REPORT_H_

#include <stdint.h>

#ifdef COUNTED
#include <stdio.h>

#include "count.h"
#define report(what, count) printf("%s: %lu\n", what, (unsigned long)(count))
#else
#define count_now() 0u
#define count_between(from, to) ((to) - (from))
#define report(what, count) ((void)(what), (void)(count))
#endif

#endif
