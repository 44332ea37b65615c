/*
 * With how many threads launches of the pool do, where all of them would be slower.
 *
 * Launches that are soon done use only workers that are awake, until a burst of them was worth waking.
 *
 * A task that its worker has begun cannot be taken over, and where other programs have the processors
 * the worker may be off one for milliseconds. Once that was seen, launches do with fewer threads for a
 * while, a truce: programs then share the processors, where each would wait for workers behind the
 * others'.
 *
 * All of this belongs to whoever has taken the pool. Times are those of tvmrt__seconds().
 */
#ifndef TVMRT_SRC_RUNTIME_CORE_FEWER_THREADS_H_
#define TVMRT_SRC_RUNTIME_CORE_FEWER_THREADS_H_

#include <stdbool.h>

/* A worker without a processor for longer is late, in seconds: waking one takes less. */
#define TVMRT_LATE 0.2e-3

/* Threads that a launch may use of `count`: fewer during a truce. The first launch after it uses all
 * and so finds out whether it is needed again. */
int tvmrt__peaceful(int count);

/* Whether tasks of a launch that begins now tell for how long they were off a processor. */
bool tvmrt__is_watched(double begin);

/* A launch on `count` threads has waited for its workers from `own` to `end`; of a watched one so
 * many were late. */
void tvmrt__keep_peace(int count, int late, double own, double end);

/* Whether a launch that wants so many tasks, 0 for any number, does without workers that sleep;
 * where it does, tvmrt__end_without() follows it. */
bool tvmrt__does_without(int wanted);
void tvmrt__end_without(void);

/* As if nothing had been seen. */
void tvmrt__forget_launches(void);

#endif /* TVMRT_SRC_RUNTIME_CORE_FEWER_THREADS_H_ */
