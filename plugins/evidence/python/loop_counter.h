/* For each file of the network: a counter in each loop's condition, and a mark for results. */
#ifndef REPLAY_LOOP_COUNTER_H_
#define REPLAY_LOOP_COUNTER_H_

extern unsigned long long replay_now[], replay_most[], replay_total[];

static inline int replay_loop(int loop, int goes_on) {
  if (!goes_on) replay_now[loop] = 0;
  if (goes_on && ++replay_now[loop] > replay_most[loop]) replay_most[loop] = replay_now[loop];
  replay_total[loop] += (unsigned)goes_on; /* undefined from the first undefined condition on */
  return goes_on;
}

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define MARK (void)VALGRIND_MAKE_MEM_UNDEFINED
extern unsigned replay_accepted; /* reports in functions whose results are marked */
#define REPLAY_REPORTS() (VALGRIND_COUNT_ERRORS - replay_accepted)
#define REPLAY_RESULT(reports, ...)                  \
  __extension__({                                    \
    __auto_type replay_result = (0, __VA_ARGS__);    \
    if (REPLAY_REPORTS() != reports) {               \
      MARK(&replay_result, sizeof replay_result);    \
      replay_accepted += REPLAY_REPORTS() - reports; \
    }                                                \
    replay_result;                                   \
  })
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_GET_VBITS(data, bits, bytes) 0
#define MARK(data, bytes) ((void)0)
#define REPLAY_REPORTS() 0u
#define REPLAY_RESULT(reports, ...) (__VA_ARGS__)
#endif

#endif
