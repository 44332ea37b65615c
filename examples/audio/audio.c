/*
 * Run a network in an audio callback: a thread calls process() once per period, as JACK does, and
 * counts the periods that it misses. Sound is made in memory: no audio hardware is needed.
 *
 *     audio LIBRARY.so [--seconds N] [--load N]
 *
 * --load N: N more threads compute, allocate and write to memory meanwhile. Needs libtvm_runtime and
 * a POSIX system.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tvm/runtime/c_runtime_api.h>

enum {
  RATE = 48000,
  BLOCK = 256, /* frames of a period: 5.3 ms */
  WINDOW = 2 * BLOCK,
  BINS = BLOCK + 1,
  MAX_SECONDS = 3600,
  MAX_LOAD = 64,
  PRIORITY = 70 /* of JACK's clients */
};

/* ---- the network ---- */

typedef struct denoiser {
  TVMModuleHandle executor;
  TVMFunctionHandle run;
  DLTensor *window, *noise, *samples, *new_noise; /* memory of the executor */
  float tail[BLOCK];                              /* of the block before, still to be added */
  int failed;
} denoiser;

static int check(int rc, const char* what) {
  if (rc != 0) fprintf(stderr, "audio: %s: %s\n", what, TVMGetLastError());
  return rc;
}

static int call(TVMModuleHandle module, const char* name, TVMValue arg, int code, TVMValue* ret) {
  TVMFunctionHandle f = NULL;
  int ret_code;
  int rc = check(TVMModGetFunction(module, name, 0, &f), name);
  if (rc == 0 && f == NULL) {
    fprintf(stderr, "audio: the library has no function '%s'\n", name);
    rc = -1;
  }
  if (rc == 0) rc = check(TVMFuncCall(f, &arg, &code, 1, ret, &ret_code), name);
  (void)TVMFuncFree(f);
  return rc;
}

/* The executor's memory of an input or output of `count` floats. */
static int get_tensor(const denoiser* d, const char* function, const char* name, int64_t count,
                      DLTensor** out) {
  TVMValue arg;
  TVMValue ret;
  arg.v_str = name;
  if (call(d->executor, function, arg, kTVMStr, &ret) != 0) return -1;
  *out = ret.v_handle;
  if (*out != NULL && (*out)->ndim == 2 && (*out)->shape[1] == count) return 0;
  fprintf(stderr, "audio: '%s' does not have %lld elements; compile denoise.onnx\n", name,
          (long long)count);
  return -1;
}

/* All that allocates happens here. */
static int denoiser_open(denoiser* d, const char* library) {
  TVMModuleHandle factory;
  TVMValue device;
  TVMValue ret;
  int i;
  memset(d, 0, sizeof(*d));
  if (check(TVMModLoadFromFile(library, "so", &factory), library) != 0) return -1;
  device.v_device.device_type = kDLCPU;
  device.v_device.device_id = 0;
  i = call(factory, "default", device, kDLDevice, &ret);
  (void)TVMModFree(factory); /* the executor keeps the library open */
  if (i != 0) return -1;
  d->executor = ret.v_handle;
  if (check(TVMModGetFunction(d->executor, "run", 0, &d->run), "run") != 0 ||
      get_tensor(d, "get_input", "window", WINDOW, &d->window) != 0 ||
      get_tensor(d, "get_input", "noise", BINS, &d->noise) != 0 ||
      get_tensor(d, "get_output", "samples", WINDOW, &d->samples) != 0 ||
      get_tensor(d, "get_output", "new_noise", BINS, &d->new_noise) != 0) {
    return -1;
  }
  memset(d->window->data, 0, WINDOW * sizeof(float));
  for (i = 0; i < BINS; ++i) ((float*)d->noise->data)[i] = 1e6f; /* until the first block */
  return 0;
}

static void denoiser_close(denoiser* d) {
  if (d->window != NULL) (void)TVMArrayFree(d->window);
  if (d->noise != NULL) (void)TVMArrayFree(d->noise);
  if (d->samples != NULL) (void)TVMArrayFree(d->samples);
  if (d->new_noise != NULL) (void)TVMArrayFree(d->new_noise);
  if (d->run != NULL) (void)TVMFuncFree(d->run);
  if (d->executor != NULL) (void)TVMModFree(d->executor);
}

/* ---- the callback ---- */

/* Called with each block of sound. It allocates nothing, takes no lock and does not call the
 * system: it copies samples and runs the network. The output is one block late. */
static int process(uint32_t frames, const float* in, float* out, void* arg) {
  denoiser* d = arg;
  float* const window = d->window->data;
  const float* const samples = d->samples->data;
  TVMValue ret;
  int code;
  uint32_t i;
  memmove(window, window + frames, (WINDOW - frames) * sizeof(*window));
  memcpy(window + WINDOW - frames, in, frames * sizeof(*window));
  if (TVMFuncCall(d->run, NULL, NULL, 0, &ret, &code) != 0) {
    d->failed = 1;
    return -1;
  }
  memcpy(d->noise->data, d->new_noise->data, BINS * sizeof(float));
  for (i = 0; i < frames; ++i) out[i] = d->tail[i] + samples[i];
  memcpy(d->tail, samples + frames, frames * sizeof(*samples));
  return 0;
}

/* ---- the sound server ---- */

typedef int (*process_callback)(uint32_t frames, const float* in, float* out, void* arg);

typedef struct server {
  process_callback process;
  void* arg;
  const float* in; /* all blocks */
  float* out;
  int64_t* nanoseconds; /* of each callback */
  int blocks;
  int done;  /* blocks */
  int xruns; /* callbacks that ended after their period */
} server;

static int64_t nanoseconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t); /* no system call on usual systems */
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t when) {
  struct timespec t;
  t.tv_sec = (time_t)(when / 1000000000);
  t.tv_nsec = (long)(when % 1000000000);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

/* A period begins when the hardware has a block; its callback has to end before the next one. */
static void* serve(void* arg) {
  server* s = arg;
  const int64_t period = (int64_t)BLOCK * 1000000000 / RATE;
  int64_t begin = nanoseconds() + period;
  for (s->done = 0; s->done < s->blocks; ++s->done) {
    int64_t start;
    int64_t end;
    sleep_until(begin);
    start = nanoseconds();
    if (s->process(BLOCK, s->in + (size_t)s->done * BLOCK, s->out + (size_t)s->done * BLOCK,
                   s->arg) != 0) {
      return NULL;
    }
    end = nanoseconds();
    s->nanoseconds[s->done] = end - start;
    begin += period;
    if (end > begin) { /* late: the blocks that were lost meanwhile are not made up for */
      ++s->xruns;
      begin += (end - begin) / period * period;
    }
  }
  return NULL;
}

/* With SCHED_FIFO if this process may; *fifo: whether it does. */
static int start_server(server* s, pthread_t* thread, int* fifo) {
  struct sched_param priority;
  pthread_attr_t attr;
  int rc;
  memset(&priority, 0, sizeof(priority));
  priority.sched_priority = PRIORITY;
  rc = pthread_attr_init(&attr);
  if (rc != 0) return rc;
  (void)pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
  (void)pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
  (void)pthread_attr_setschedparam(&attr, &priority);
  rc = pthread_create(thread, &attr, serve, s);
  (void)pthread_attr_destroy(&attr);
  *fifo = rc == 0;
  return rc == EPERM ? pthread_create(thread, NULL, serve, s) : rc;
}

/* ---- other work of the machine ---- */

static atomic_bool stop_load;

static void* load(void* arg) {
  unsigned seed = 1;
  (void)arg;
  while (!atomic_load(&stop_load)) {
    size_t bytes = 1000 + (seed = seed * 1103515245u + 12345u) % 1000000u;
    char* memory = malloc(bytes);
    if (memory != NULL) memset(memory, (int)seed, bytes);
    free(memory);
  }
  return NULL;
}

/* ---- the sound ---- */

/* A second of tone and a second of pause in turn, with noise of a tenth of the tone. */
static void make_sound(float* out, size_t frames) {
  uint32_t seed = 1;
  size_t i;
  for (i = 0; i < frames; ++i) {
    float noise = 0;
    int k;
    for (k = 0; k < 4; ++k) {
      seed = seed * 1664525u + 1013904223u;
      noise += (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
    out[i] = 0.05f * noise;
    if (i / RATE % 2 == 0)
      out[i] += 0.5f * (float)sin(2 * 3.14159265358979 * 440 * (double)i / RATE);
  }
}

/* Mean power in dB of the tones, or of the pauses, after two seconds and away from edges; NaN if
 * there are none. */
static double decibels(const float* x, size_t frames, int pauses) {
  double sum = 0;
  size_t count = 0;
  size_t i;
  for (i = 2 * RATE; i < frames; ++i) {
    const size_t within = i % RATE;
    if ((int)(i / RATE % 2) != pauses || within < RATE / 4 || within > 3 * RATE / 4) continue;
    sum += (double)x[i] * x[i];
    ++count;
  }
  return count == 0 ? NAN : 10 * log10(sum / (double)count + 1e-20);
}

/* ---- the program ---- */

typedef struct options {
  const char* library;
  int seconds;
  int load;
} options;

static int parse_number(const char* text, int most, int* out) {
  char* end;
  long value = strtol(text, &end, 10);
  *out = (int)value;
  return *end == '\0' && end != text && value >= 0 && value <= most ? 0 : -1;
}

static int parse(int argc, char** argv, options* o) {
  int i;
  o->library = argc > 1 ? argv[1] : NULL;
  o->seconds = 10;
  o->load = 0;
  for (i = 2; i + 1 < argc; i += 2) {
    int rc = -1;
    if (strcmp(argv[i], "--seconds") == 0) rc = parse_number(argv[i + 1], MAX_SECONDS, &o->seconds);
    if (strcmp(argv[i], "--load") == 0) rc = parse_number(argv[i + 1], MAX_LOAD, &o->load);
    if (rc != 0) break;
  }
  if (o->library != NULL && i == argc && o->seconds > 0) return 0;
  fprintf(stderr, "audio: usage: audio LIBRARY.so [--seconds 1..%d] [--load 0..%d]\n", MAX_SECONDS,
          MAX_LOAD);
  return -1;
}

static int ascending(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a;
  const int64_t y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

static void print_change(const char* what, double after, double before) {
  if (isnan(after)) {
    printf("%s: not measured; set --seconds 4 or more\n", what);
  } else {
    printf("%s: %.1f dB, were %.1f dB\n", what, after, before);
  }
}

static void report(server* s, int fifo, int locked) {
  const size_t frames = (size_t)s->done * BLOCK;
  int64_t* t = s->nanoseconds;
  if (s->done == 0) return;
  qsort(t, (size_t)s->done, sizeof(*t), ascending);
  printf("scheduling: %s, memory %s\n", fifo ? "SCHED_FIFO" : "SCHED_OTHER",
         locked ? "locked" : "not locked");
  printf("blocks: %d of %d frames, %d xruns\n", s->done, BLOCK, s->xruns);
  printf("callback: p50 %.1f us, p99 %.1f us, max %.1f us\n", 1e-3 * (double)t[s->done / 2],
         1e-3 * (double)t[(s->done - 1) * 99 / 100], 1e-3 * (double)t[s->done - 1]);
  print_change("pauses", decibels(s->out, frames, 1), decibels(s->in, frames, 1));
  print_change("tones", decibels(s->out, frames, 0), decibels(s->in, frames, 0));
}

/* Run the server to its end, next to the threads of the load. */
static int serve_under_load(server* s, int num_load, int* fifo) {
  pthread_t loads[MAX_LOAD];
  pthread_t thread;
  int started = 0;
  int rc;
  while (started < num_load && pthread_create(&loads[started], NULL, load, NULL) == 0) ++started;
  rc = start_server(s, &thread, fifo);
  if (rc == 0) rc = pthread_join(thread, NULL);
  atomic_store(&stop_load, true);
  while (started > 0) (void)pthread_join(loads[--started], NULL);
  if (rc != 0) fprintf(stderr, "audio: the thread does not start: %s\n", strerror(rc));
  return rc;
}

int main(int argc, char** argv) {
  static denoiser d;
  server s;
  options o;
  size_t frames;
  float* sound;
  int fifo = 0;
  int rc = 2;
  if (parse(argc, argv, &o) != 0) return 2;
  memset(&s, 0, sizeof(s));
  s.blocks = o.seconds * RATE / BLOCK;
  frames = (size_t)s.blocks * BLOCK;
  sound = calloc(frames, sizeof(*sound));
  s.out = calloc(frames, sizeof(*s.out));
  s.nanoseconds = calloc((size_t)s.blocks, sizeof(*s.nanoseconds));
  if (sound == NULL || s.out == NULL || s.nanoseconds == NULL) {
    fprintf(stderr, "audio: no memory for %d seconds of sound\n", o.seconds);
  } else if (denoiser_open(&d, o.library) == 0) {
    const int locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0; /* no page faults in the callback */
    make_sound(sound, frames);
    s.process = process;
    s.arg = &d;
    s.in = sound;
    rc = serve_under_load(&s, o.load, &fifo) == 0 ? 0 : 2;
    report(&s, fifo, locked);
    if (d.failed) rc = check(-1, "run") != 0 ? 2 : rc;
  }
  denoiser_close(&d);
  free(sound);
  free(s.out);
  free(s.nanoseconds);
  return rc;
}
