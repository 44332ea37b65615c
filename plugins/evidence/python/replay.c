/*
 * Runs the network on recorded inputs and names the first tensor that differs from its record.
 * vectors/vectors.h has the inputs, the expected outputs and a digest of each tensor that lies in
 * memory between two operators. None of them was computed by the code under test.
 *
 * On a board, define REPLAY_PRINT as a function like printf, and call replay(). With REPLAY_DUMP,
 * the program goes on after a difference and writes all tensors to the file that is its argument.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define REPLAY_AXES 8
enum { REPLAY_NOTHING, REPLAY_EXACT, REPLAY_RANGE }; /* what a digest compares */

typedef struct {
  int32_t step, output; /* the operator, and the output that it writes, or a part of it, or -1 */
  const char *name, *nodes;
  char kind; /* i, u or f */
  int bytes, rank;
  const int32_t* axes; /* extent and stride of each axis */
  uint32_t elements;
  const unsigned char* pool;
  uint32_t offset;
} replay_tensor;

typedef struct {
  int what;
  uint32_t crc;
  double low, high, allowed;
} replay_digest;

typedef struct {
  int32_t step;
  const unsigned char* pool;
  uint32_t begin, end;
} replay_span;

#include "vectors/vectors.h"

#ifndef REPLAY_PRINT
#define REPLAY_PRINT printf
#endif
#ifdef REPLAY_DUMP
static FILE* dump;
enum { REPLAY_GOES_ON = 1 };
#else
enum { REPLAY_GOES_ON = 0 };
#endif
static int found_difference;

static uint64_t load(const unsigned char* at, int bytes) {
  const uint16_t one = 1;
  const int is_little = *(const unsigned char*)&one; /* the byte order of this machine */
  uint64_t bits = 0;
  for (int i = 0; i < bytes; ++i) bits = bits << 8 | at[is_little ? bytes - 1 - i : i];
  return bits;
}

static double number(const replay_tensor* t, uint64_t bits) {
  const uint64_t sign = (uint64_t)1 << (8 * t->bytes - 1);
  const uint32_t low = (uint32_t)bits;
  float single;
  double value;
  if (t->kind == 'u') return (double)bits;
  if (t->kind == 'i') return (bits & sign) != 0 ? -(double)(sign - (bits - sign)) : (double)bits;
  memcpy(&single, &low, sizeof single);
  memcpy(&value, &bits, sizeof value);
  return t->bytes == 4 ? (double)single : value;
}

typedef struct {
  uint32_t crc;
  double low, high;
  int differs;
} replay_found;

/* Visit the elements in the order of their axes; `right`: the expected ones, which have the same
 * places in memory, or NULL. */
static void visit(const replay_tensor* t, const unsigned char* data, const unsigned char* right,
                  double allowed, replay_found* found) {
  int32_t index[REPLAY_AXES] = {0};
  uint32_t place = 0;
  for (; place < t->elements; ++place) {
    int64_t at = 0;
    for (int d = 0; d < t->rank; ++d) at += (int64_t)index[d] * t->axes[2 * d + 1];
    const uint64_t bits = load(data + at * t->bytes, t->bytes);
    const double value = number(t, bits);
    for (int i = 0; i < t->bytes; ++i) {
      const unsigned char byte = (unsigned char)(bits >> (8 * i));
      found->crc ^= byte;
      for (int k = 0; k < 8; ++k) {
        found->crc = (found->crc >> 1) ^ (0xedb88320u & (0u - (found->crc & 1u)));
      }
#ifdef REPLAY_DUMP
      fputc(byte, dump);
#endif
    }
    if (value < found->low) found->low = value;
    if (value > found->high) found->high = value;
    if (right != NULL && !found->differs) {
      const double other = number(t, load(right + at * t->bytes, t->bytes));
      const double apart = fabs(value - other);
      const int is_nan = value != value && other != other;
      if (!(apart <= allowed) && value != other && !is_nan) found->differs = 1;
    }
    for (int d = t->rank - 1; d >= 0 && ++index[d] == t->axes[2 * d]; --d) index[d] = 0;
  }
  found->crc ^= 0xffffffffu;
}

/* Whether a tensor is as recorded; prints its name if not. */
static int is_right(int v, int k, int whole) {
  const replay_tensor* t = &replay_tensors[k];
  const replay_digest* r = &replay_digests[v][k];
  const unsigned char *data = t->pool, *right = NULL;
  double allowed = 0;
  if (t->output >= 0) {
    data = replay_outputs[t->output];
    right = (const unsigned char*)replay_expected[v][t->output] + t->offset;
    allowed = replay_allowed[v][t->output];
  }
  replay_found found = {0xffffffffu, HUGE_VAL, -HUGE_VAL, 0};
  visit(t, data + t->offset, right, allowed, &found);
  int wrong = found.differs;
  if (r->what == REPLAY_EXACT) wrong |= found.crc != r->crc;
  if (r->what == REPLAY_RANGE) {
    wrong |= !(fabs(found.low - r->low) <= r->allowed && fabs(found.high - r->high) <= r->allowed);
  }
  if (wrong && !found_difference) {
    found_difference = 1;
    REPLAY_PRINT("vector %d%s: %s differs, the result of operator %d (nodes %s)\n", v,
                 whole ? ", in one run" : "", t->name, (int)t->step, t->nodes);
  }
  return !wrong || REPLAY_GOES_ON;
}

static void spoil(int v) {
  for (int p = 0; p < REPLAY_POOLS; ++p) memset(replay_pools[p], 0xA5 + v, replay_pool_bytes[p]);
  for (int o = 0; o < REPLAY_OUTPUTS; ++o) memset(replay_outputs[o], 0x5A + v, replay_bytes[o]);
}

/* Return a digest (FNV-1a) of the bytes that an operator must not change. */
static uint32_t kept_bytes(int32_t step) {
  uint32_t digest = 2166136261u;
  for (size_t s = 0; s < sizeof replay_kept / sizeof *replay_kept; ++s) {
    const replay_span* kept = &replay_kept[s];
    if (kept->step != step) continue;
    for (uint32_t i = kept->begin; i < kept->end; ++i) {
      digest = (digest ^ kept->pool[i]) * 16777619u;
    }
  }
  return digest;
}

/* Run an operator; `first`: the number of its first tensor. */
static int32_t run_step(int v, REPLAY_STATE* state, int32_t step, int first) {
  const uint32_t kept = kept_bytes(step);
  const int32_t code = REPLAY_STEP(state, 1);
  if (code >= 0 && !found_difference && kept_bytes(step) != kept) {
    found_difference = 1;
    REPLAY_PRINT("vector %d: memory that is not a result differs after operator %d (nodes %s)\n", v,
                 (int)step, first < REPLAY_TENSORS ? replay_tensors[first].nodes : "unknown");
  }
  return code;
}

/* Return 0 if all tensors are as recorded. */
int replay(void) {
  for (int v = 0; v < REPLAY_VECTORS; ++v) {
    REPLAY_STATE state;
    REPLAY_IN inputs;
    REPLAY_OUT outputs;
    int32_t code;
    memcpy(&inputs, replay_inputs[v], sizeof replay_inputs[v]);
    memcpy(&outputs, replay_outputs, sizeof replay_outputs);
    spoil(v);
    code = REPLAY_BEGIN(&state, &inputs, &outputs);
    for (int32_t step = 0, k = 0; step < REPLAY_STEPS; ++step) {
      if (code >= 0) code = run_step(v, &state, step, k);
      if (code < 0 || (code != 0) != (step + 1 < REPLAY_STEPS)) {
        REPLAY_PRINT("vector %d: operator %d returns %d\n", v, (int)step, (int)code);
        return 2;
      }
      if (found_difference && !REPLAY_GOES_ON) return 1;
      for (; k < REPLAY_TENSORS && replay_tensors[k].step == step; ++k) {
        if (!is_right(v, k, 0)) return 1;
      }
    }
    spoil(v);
    code = REPLAY_RUN(&inputs, &outputs);
    if (code != 0) {
      REPLAY_PRINT("vector %d: the network returns %d\n", v, (int)code);
      return 2;
    }
    for (int k = 0; k < REPLAY_TENSORS; ++k) {
      if (replay_tensors[k].output >= 0 && !is_right(v, k, 1)) return 1;
    }
  }
  if (found_difference) return 1;
  REPLAY_PRINT("%d tensors are as recorded in each of %d vectors\n", REPLAY_TENSORS,
               REPLAY_VECTORS);
  return 0;
}

#ifndef REPLAY_NO_MAIN
int main(int count, char** words) {
#ifdef REPLAY_DUMP
  dump = count == 2 ? fopen(words[1], "wb") : NULL;
  if (dump == NULL) return 3;
  const int code = replay();
  return fclose(dump) != 0 ? 3 : code;
#else
  (void)count, (void)words;
  return replay();
#endif
}
#endif
