/*!
 * \file recurrent_shared.h
 * \brief Recurrent cells whose steps two threads share.
 *
 * A step depends on the previous one, but the units of a step do not depend on each other. Two
 * threads therefore share the units of every step: the leader, which is the first task to start,
 * and a helper. Each multiplies the state with its own half of the recurrence weights, which stays
 * in its cache. They exchange the new states after every step.
 *
 * The leader never depends on the helper. It starts alone, and shares the steps from the time when
 * the helper has arrived. If the helper is late with a step, because its thread lost its processor,
 * the leader computes that step and all later ones alone. Both write new states to other memory
 * than the old ones, so a late helper damages nothing. Results have the same bits in any case.
 *
 *   TVMRT_DEFINE_GRU_F32(my_gru, tvmrt_sigmoid_f32, tvmrt_tanh_f32)
 *   TVMRT_SHARE_GRU_F32(my_gru)
 *
 * define my_gru_shared(), which is called as my_gru() is. Compilers without the atomic operations
 * of GCC, and machines without threads, use my_gru().
 */
#ifndef TVM_RUNTIME_KERNELS_OP_RECURRENT_SHARED_H_
#define TVM_RUNTIME_KERNELS_OP_RECURRENT_SHARED_H_

#include "../parallel.h"
#include "recurrent.h"

#if defined(__GNUC__) && !defined(TVMRT_FREESTANDING)

/* Part of a step: units [begin, end) of all gates. `state` is the hidden state before the step. */
typedef struct tvmrt_recurrent_f32_part {
  const float* state;
  int step, begin, end;
} tvmrt_recurrent_f32_part;

/* Replace the states job->h and job->c of a part by those after the step. */
typedef int (*tvmrt_recurrent_f32_step)(const tvmrt_recurrent_f32_layer* layer,
                                        const tvmrt_tiles_f32* tiles,
                                        const tvmrt_recurrent_f32_job* job,
                                        const tvmrt_recurrent_f32_part* part, int input_forget);

/* The part's columns of the recurrent matmul; gates are `hidden` columns apart, in a row of n. */
static inline int tvmrt_recurrent_f32_part_matmul(const tvmrt_recurrent_f32_layer* layer,
                                                  const tvmrt_tiles_f32* tiles,
                                                  const tvmrt_recurrent_f32_job* job,
                                                  const tvmrt_recurrent_f32_part* part, int n) {
  for (int gate = 0; gate < n; gate += layer->hidden) {
    if (tvmrt_recurrent_f32_columns(layer, tiles, part->state, job->r, job->bias,
                                    gate + part->begin, gate + part->end, n, job->sums) != 0)
      return -1;
  }
  return 0;
}

/* Copy the new states h after step s to the results. */
static inline void tvmrt_recurrent_f32_results(const tvmrt_recurrent_f32_layer* layer,
                                               const tvmrt_recurrent_f32_job* job, const float* h,
                                               int s) {
  for (int b = 0; b < layer->batch; b++) {
    const int t = tvmrt_recurrent_f32_index(layer, job, b, s);
    if (t < 0) continue;
    memcpy(job->y + t * layer->y_step + b * layer->y_row, h + (int64_t)b * layer->hidden,
           (size_t)layer->hidden * sizeof(float));
  }
}

enum {
  TVMRT_RECURRENT_LEFT = -1,     /* in `ended`: the helper computes no more steps */
  TVMRT_RECURRENT_DONE = 1 << 30 /* in `begun`: the leader needs no helper anymore */
};

/* One launch. States and flags of the two threads are in cache lines of their own. */
typedef struct tvmrt_recurrent_f32_launch {
  const tvmrt_recurrent_f32_layer* layer;
  const tvmrt_tiles_f32* tiles;
  const tvmrt_recurrent_f32_job* job;
  tvmrt_recurrent_f32_step step;
  int input_forget;
  int cut;       /* the helper's first unit */
  int polls;     /* maximum wait for the other thread */
  float* states; /* hidden states before even and odd steps, then cell states */
  float* sums;   /* the helper's */
  int arrived;   /* number of tasks that have started */
  int wanted;    /* 1: the helper has arrived; 2: the leader knows */
  char line[64];
  int begun; /* number of steps that the helper may compute; its first one is the last of them */
  char other_line[64];
  int ended; /* number of steps before the helper's next one */
  char last_line[64];
} tvmrt_recurrent_f32_launch;

/* Wait until *count >= target; 0 if it takes too long or the helper has left. */
static inline int tvmrt_recurrent_f32_wait(const int* count, int target, int polls) {
  for (int i = 0; i < polls; i++) {
    const int now = __atomic_load_n(count, __ATOMIC_ACQUIRE);
    if (now >= target) return 1;
    if (now == TVMRT_RECURRENT_LEFT) return 0;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
  }
  return 0;
}

static inline int tvmrt_recurrent_f32_exchange(int* at, int from, int to) {
  return __atomic_compare_exchange_n(at, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Hidden states before step s, or cell states if `cell`. */
static inline float* tvmrt_recurrent_f32_states(const tvmrt_recurrent_f32_launch* l, int s,
                                                int cell) {
  return l->states + (int64_t)(2 * cell + s % 2) * l->layer->batch * l->layer->hidden;
}

/* Copy units [begin, end) of all rows. */
static inline void tvmrt_recurrent_f32_copy(const tvmrt_recurrent_f32_layer* layer, float* to,
                                            const float* from, int begin, int end) {
  for (int b = 0; b < layer->batch; b++) {
    const int64_t first = (int64_t)b * layer->hidden + begin;
    memcpy(to + first, from + first, (size_t)(end - begin) * sizeof(float));
  }
}

/* Copy all states before step s from the job's memory to the shared one, or back. */
static inline void tvmrt_recurrent_f32_move(const tvmrt_recurrent_f32_launch* l, int s, int back) {
  for (int cell = 0; cell <= (l->job->c != NULL); cell++) {
    float* shared = tvmrt_recurrent_f32_states(l, s, cell);
    float* own = cell ? l->job->c : l->job->h;
    tvmrt_recurrent_f32_copy(l->layer, back ? own : shared, back ? shared : own, 0,
                             l->layer->hidden);
  }
}

/* Compute all units of step s in the job's memory. */
static inline int tvmrt_recurrent_f32_whole(const tvmrt_recurrent_f32_launch* l, int s) {
  const tvmrt_recurrent_f32_part part = {l->job->h, s, 0, l->layer->hidden};
  if (l->step(l->layer, l->tiles, l->job, &part, l->input_forget) != 0) return -1;
  tvmrt_recurrent_f32_results(l->layer, l->job, l->job->h, s);
  return 0;
}

/* Compute units [begin, end) of step s. */
static inline int tvmrt_recurrent_f32_units(const tvmrt_recurrent_f32_launch* l, int s, int begin,
                                            int end, float* sums) {
  tvmrt_recurrent_f32_job job = *l->job;
  const tvmrt_recurrent_f32_part part = {tvmrt_recurrent_f32_states(l, s, 0), s, begin, end};
  job.h = tvmrt_recurrent_f32_states(l, s + 1, 0);
  job.sums = sums;
  tvmrt_recurrent_f32_copy(l->layer, job.h, part.state, begin, end);
  if (job.c) {
    job.c = tvmrt_recurrent_f32_states(l, s + 1, 1);
    tvmrt_recurrent_f32_copy(l->layer, job.c, tvmrt_recurrent_f32_states(l, s, 1), begin, end);
  }
  return l->step(l->layer, l->tiles, &job, &part, l->input_forget);
}

/* Compute the leader's units of step s. *shares becomes 0 if the helper is late; the job's states
 * are then those before the step. */
static inline int tvmrt_recurrent_f32_lead_step(tvmrt_recurrent_f32_launch* l, int s, int* shares) {
  __atomic_store_n(&l->begun, s + 1, __ATOMIC_RELEASE);
  if (tvmrt_recurrent_f32_units(l, s, 0, l->cut, l->job->sums) != 0) return -1;
  if (tvmrt_recurrent_f32_wait(&l->ended, s + 1, l->polls)) return 0;
  if (!tvmrt_recurrent_f32_exchange(&l->ended, s, TVMRT_RECURRENT_LEFT) &&
      __atomic_load_n(&l->ended, __ATOMIC_ACQUIRE) > s)
    return 0;
  *shares = 0;
  tvmrt_recurrent_f32_move(l, s, 1);
  return 0;
}

static inline int tvmrt_recurrent_f32_lead(tvmrt_recurrent_f32_launch* l) {
  const int steps = l->job->steps;
  int shares = 0, rc = 0;
  for (int s = 0; s < steps && rc == 0; s++) {
    if (!shares && __atomic_load_n(&l->wanted, __ATOMIC_RELAXED) == 1 &&
        tvmrt_recurrent_f32_exchange(&l->wanted, 1, 2)) {
      tvmrt_recurrent_f32_move(l, s, 0);
      __atomic_store_n(&l->ended, s, __ATOMIC_RELAXED);
      shares = 1;
    }
    if (shares) rc = tvmrt_recurrent_f32_lead_step(l, s, &shares);
    if (rc != 0) break;
    if (shares) {
      tvmrt_recurrent_f32_results(l->layer, l->job, tvmrt_recurrent_f32_states(l, s + 1, 0), s);
    } else {
      rc = tvmrt_recurrent_f32_whole(l, s);
    }
  }
  if (shares) tvmrt_recurrent_f32_move(l, steps, 1);
  if (rc != 0) __atomic_store_n(&l->ended, TVMRT_RECURRENT_LEFT, __ATOMIC_RELEASE);
  __atomic_store_n(&l->begun, TVMRT_RECURRENT_DONE, __ATOMIC_RELEASE);
  return rc;
}

static inline int tvmrt_recurrent_f32_help(tvmrt_recurrent_f32_launch* l) {
  int begun;
  __atomic_store_n(&l->wanted, 1, __ATOMIC_RELEASE);
  while (!tvmrt_recurrent_f32_wait(&l->begun, 1, l->polls)) {
    if (tvmrt_recurrent_f32_exchange(&l->wanted, 1, 0)) return 0;
  }
  begun = __atomic_load_n(&l->begun, __ATOMIC_ACQUIRE);
  if (begun == TVMRT_RECURRENT_DONE) return 0;
  for (int s = begun - 1; s < l->job->steps; s++) {
    const int late = !tvmrt_recurrent_f32_wait(&l->begun, s + 1, l->polls);
    const int rc = late ? 0 : tvmrt_recurrent_f32_units(l, s, l->cut, l->layer->hidden, l->sums);
    const int leaves = late || rc != 0;
    if (!tvmrt_recurrent_f32_exchange(&l->ended, s, leaves ? TVMRT_RECURRENT_LEFT : s + 1) ||
        leaves)
      return rc;
  }
  return 0;
}

/* The first task leads, the second one helps: they may run one after the other. */
static inline int tvmrt_recurrent_f32_task(int task_id, TVMParallelGroupEnv* env, void* closure) {
  tvmrt_recurrent_f32_launch* l = (tvmrt_recurrent_f32_launch*)closure;
  const int place = __atomic_fetch_add(&l->arrived, 1, __ATOMIC_ACQ_REL);
  (void)task_id, (void)env;
  return place == 0 ? tvmrt_recurrent_f32_lead(l) : place == 1 ? tvmrt_recurrent_f32_help(l) : 0;
}

/* The helper's first unit; 0 if one thread computes the layer. Tiles do not cross the boundary. */
static inline int tvmrt_recurrent_f32_cut(const tvmrt_recurrent_f32_layer* layer,
                                          const tvmrt_tiles_f32* tiles,
                                          const tvmrt_recurrent_f32_job* job) {
  const int blocks = layer->hidden / tiles->block;
  if (job->r_hidden) return 0;
  if (blocks < 2 || blocks * tiles->block != layer->hidden) return 0;
  return (blocks + 1) / 2 * tiles->block;
}

/* Compute all steps on two threads if that is worth it: 1, or -1 on failure; otherwise 0. */
static inline int tvmrt_recurrent_f32_share(const tvmrt_recurrent_f32_layer* layer,
                                            const tvmrt_tiles_f32* tiles,
                                            const tvmrt_recurrent_f32_job* job,
                                            tvmrt_recurrent_f32_step step, int gates,
                                            int input_forget) {
  const int64_t units = (int64_t)layer->batch * layer->hidden, macs = units * gates * layer->hidden;
  tvmrt_recurrent_f32_launch l;
  int rc;
  memset(&l, 0, sizeof(l));
  l.cut = tvmrt_recurrent_f32_cut(layer, tiles, job);
  if (l.cut == 0) return 0;
  l.layer = layer;
  l.tiles = tiles;
  l.job = job;
  l.step = step;
  l.input_forget = input_forget;
  l.polls = (int)(2000 + macs / 32);
  l.states = (float*)tvmrt_scratch_alloc(8 * units * (int64_t)sizeof(float));
  if (l.states == NULL) return -1;
  l.sums = l.states + 4 * units;
  tvmrt_recurrent_f32_start(layer, job->h0, job->h);
  if (job->c) tvmrt_recurrent_f32_start(layer, job->c0, job->c);
  tvmrt_recurrent_f32_pad(layer, job);
  rc = tvmrt_launch(tvmrt_recurrent_f32_task, &l, 1, 1);
  return tvmrt_scratch_free(l.states) != 0 || rc != 0 ? -1 : 1;
}

/* clang-format off */
/* NAME_shared() computes the cell with steps of UNITS, the loop over a row's units; its arguments
 * are x, sums, cell and hidden states of the row. Where tiles cannot be divided it calls NAME. */
#define TVMRT_SHARE_RECURRENT(NAME, GATES, INPUT_FORGET, ARGUMENTS, ...)                           \
  TVMRT_NOINLINE int NAME##_step(const tvmrt_recurrent_f32_layer* layer,                           \
                                 const tvmrt_tiles_f32* tiles, const tvmrt_recurrent_f32_job* job, \
                                 const tvmrt_recurrent_f32_part* part, int input_forget) {         \
    const int hidden = layer->hidden;                                                              \
    if (tvmrt_recurrent_f32_part_matmul(layer, tiles, job, part, (GATES) * hidden) != 0) return -1;\
    for (int b = 0; b < layer->batch; b++) {                                                       \
      const int t = tvmrt_recurrent_f32_index(layer, job, b, part->step);                          \
      if (t < 0) continue;                                                                         \
      NAME##_units(layer, job, part->begin, part->end, input_forget,                               \
                   job->x + t * layer->x_step + b * layer->x_row,                                  \
                   job->sums + (int64_t)b * (GATES) * hidden, (int64_t)b * hidden);                \
    }                                                                                              \
    return 0;                                                                                      \
  }                                                                                                \
  TVMRT_NOINLINE int NAME##_shared(__VA_ARGS__) {                                                  \
    const int shared =                                                                             \
        tvmrt_recurrent_f32_share(layer, tiles, job, NAME##_step, GATES, INPUT_FORGET);            \
    return shared == 0 ? NAME ARGUMENTS : shared < 0 ? -1 : 0;                                     \
  }

#define TVMRT_SHARE_LSTM_F32(NAME)                                                                 \
  TVMRT_SHARE_RECURRENT(NAME, 4, input_forget, (layer, tiles, job, input_forget),                  \
                        const tvmrt_recurrent_f32_layer* layer, const tvmrt_tiles_f32* tiles,      \
                        const tvmrt_recurrent_f32_job* job, int input_forget)

/* Only if the reset gate scales the product with the state: job->r_hidden is NULL. */
#define TVMRT_SHARE_GRU_F32(NAME)                                                                  \
  TVMRT_RECURRENT_UNITS(NAME) {                                                                    \
    (void)input_forget;                                                                            \
    NAME##_reset(layer->hidden, begin, end, layer->clip, x, s, job->h + row, NULL);                \
    NAME##_row(layer->hidden, begin, end, layer->clip, x, s, job->h + row);                        \
  }                                                                                                \
  TVMRT_SHARE_RECURRENT(NAME, 3, 0, (layer, tiles, job),                                           \
                        const tvmrt_recurrent_f32_layer* layer, const tvmrt_tiles_f32* tiles,      \
                        const tvmrt_recurrent_f32_job* job)

#define TVMRT_SHARE_RNN_F32(NAME)                                                                  \
  TVMRT_SHARE_RECURRENT(NAME, 1, 0, (layer, tiles, job),                                           \
                        const tvmrt_recurrent_f32_layer* layer, const tvmrt_tiles_f32* tiles,      \
                        const tvmrt_recurrent_f32_job* job)
/* clang-format on */

#else
#define TVMRT_SHARE_ALONE(NAME, ARGUMENTS, ...) \
  TVMRT_NOINLINE int NAME##_shared(__VA_ARGS__) { return NAME ARGUMENTS; }
#define TVMRT_SHARE_LSTM_F32(NAME)                                                        \
  TVMRT_SHARE_ALONE(NAME, (layer, tiles, job, input_forget),                              \
                    const tvmrt_recurrent_f32_layer* layer, const tvmrt_tiles_f32* tiles, \
                    const tvmrt_recurrent_f32_job* job, int input_forget)
#define TVMRT_SHARE_GRU_F32(NAME)                                                      \
  TVMRT_SHARE_ALONE(NAME, (layer, tiles, job), const tvmrt_recurrent_f32_layer* layer, \
                    const tvmrt_tiles_f32* tiles, const tvmrt_recurrent_f32_job* job)
#define TVMRT_SHARE_RNN_F32(NAME) TVMRT_SHARE_GRU_F32(NAME)
#endif

#endif /* TVM_RUNTIME_KERNELS_OP_RECURRENT_SHARED_H_ */
