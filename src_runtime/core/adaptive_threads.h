/*
 * Number of threads that launches of the pool use when using all of them would be slower.
 *
 * Short launches use only awake workers, until a burst of launches justifies waking others.
 *
 * A task that its worker has begun cannot be taken over. If other programs use the processors, the
 * worker may lose its processor for milliseconds. After that is detected, launches use fewer
 * threads for a while, a truce: programs then share the processors instead of waiting for each
 * other.
 *
 * Owned by the thread that has taken the pool. Times are those of tvmrt__seconds().
 */
#ifndef TVMRT_SRC_RUNTIME_CORE_ADAPTIVE_THREADS_H_
#define TVMRT_SRC_RUNTIME_CORE_ADAPTIVE_THREADS_H_

#include <stdbool.h>

/* Time without a processor after which a worker is late, in seconds: waking one takes less. */
#define TVMRT_LATE_SECONDS 0.2e-3

/* Number of threads of `count` that a launch may use: fewer during a truce. The first launch after
 * a truce uses all and so detects whether another one is needed. */
int tvmrt__allowed_threads(int count);

/* Whether tasks of a launch that begins now measure their time without a processor. */
bool tvmrt__is_monitored(double begin);

/* Record that a launch on `count` threads waited for its workers from `own_end` to `end`; `late` of
 * them were late (only known for watched launches). */
void tvmrt__record_launch(int count, int late, double own_end, double end);

/* Whether a launch of `num_tasks` tasks (0: any number) runs without the workers that sleep. If
 * true, call tvmrt__end_awake_only_launch() afterwards. */
bool tvmrt__uses_awake_workers_only(int num_tasks);
void tvmrt__end_awake_only_launch(void);

/* Reset all recorded state. */
void tvmrt__forget_launches(void);

#endif /* TVMRT_SRC_RUNTIME_CORE_ADAPTIVE_THREADS_H_ */
