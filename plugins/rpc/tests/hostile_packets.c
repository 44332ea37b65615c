/*
 * Throws packets at the server's side of remote sessions, in this process: those of true sessions,
 * changed in their lengths, codes, handles, addresses and bytes, cut, mixed, repeated and left out,
 * calls of every global function with arguments of every kind, and random bytes.
 *
 *     hostile_packets [PACKETS [SEED]]      as many sessions as it takes; 10000000 and 1 are the default
 *     hostile_packets --session N [SEED]    that one alone
 *
 * Each session is made of its own number and the seed: one that ends the process is named, and found
 * again but for the addresses of its memory. Not called, since they would do what a client with the
 * server's key may have done: what measures time or waits for a requested time, opens connections,
 * starts threads, and reads or writes files outside of the session's folder.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "recorded_sessions.h"

enum { MAX_PACKET_BYTES = 1 << 14, MAX_NAMES = 512 };

typedef struct counts {
  uint64_t packets, sessions, results, errors, broken;
} counts;

static recorded_session recorded[RECORDED_SESSIONS];
static const char* names[MAX_NAMES]; /* global functions that may be called */
static size_t name_count;
static uint64_t current; /* current session, for crash reports */

/* ---- numbers ---- */

static uint64_t random_state;

/* splitmix64 */
static uint64_t draw(void) {
  uint64_t z = random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static size_t below(size_t n) { return (size_t)(draw() % n); }

/* True once in n calls. */
static bool happens(size_t n) { return below(n) == 0; }

/* Boundary values that break parsers. */
static uint64_t odd_number(void) {
  static const uint64_t numbers[] = {0,           1,
                                     2,           7,
                                     8,           12,
                                     64,          127,
                                     128,         255,
                                     256,         4095,
                                     4096,        65535,
                                     65536,       1u << 20,
                                     0x7fffffff,  0x80000000u,
                                     0xffffffffu, 1ull << 32,
                                     1ull << 40,  1ull << 62,
                                     1ull << 63,  INT64_MAX,
                                     UINT64_MAX,  UINT64_MAX - 7};
  if (happens(4)) return draw() >> below(64);
  return numbers[below(sizeof(numbers) / sizeof(numbers[0]))] + below(3) - 1;
}

/* ---- packets ---- */

static void put(tvmrt_buf* out, int bytes, uint64_t value) {
  FUZZ_REQUIRE(tvmrt__write_uint(out, bytes, value) == 0);
}

static void put_marker(tvmrt_buf* out) {
  for (int i = 0; i < 7; ++i) put(out, 1, ADDRESS_BYTE);
  put(out, 1, below(8));
}

static void put_text(tvmrt_buf* out, const char* text) {
  FUZZ_REQUIRE(tvmrt__write_data(out, text, strlen(text)) == 0);
}

static void put_tensor(tvmrt_buf* out) {
  const int ndim = (int)below(4);
  happens(8) ? put(out, 8, odd_number()) : put_marker(out);
  put(out, 4, happens(8) ? odd_number() : kDLCPU);
  put(out, 4, 0);
  put(out, 4, (uint64_t)ndim);
  put(out, 4, happens(4) ? draw() : 0x00012002u);
  for (int i = 0; i < ndim; ++i) put(out, 8, happens(4) ? odd_number() : below(4));
  put(out, 8, happens(4) ? odd_number() : 0);
}

static void put_value(tvmrt_buf* out, int code) {
  switch (code) {
    case kTVMNullptr:
      return;
    case kTVMDLTensorHandle:
      put_tensor(out);
      return;
    case kTVMStr:
    case kTVMBytes:
      put_text(out, happens(2) ? names[below(name_count)] : happens(2) ? "" : "x");
      return;
    case kTVMOpaqueHandle:
      happens(2) ? put_marker(out) : put(out, 8, odd_number());
      return;
    case kTVMObjectHandle:
      put(out, 4, 9);
      put(out, 8, below(12));
      return;
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      put(out, 8, below(12));
      return;
    default:
      put(out, 8, happens(2) ? odd_number() : below(4));
  }
}

/* A call of an object that the session may hold, with some arguments of any type. */
static void make_call(tvmrt_buf* out) {
  const int count = (int)below(6);
  int codes[6];
  FUZZ_REQUIRE(tvmrt__rpc_begin(out, TVMRT_RPC_CALL) == 0);
  put(out, 8, 1 + below(12));
  put(out, 4, (uint64_t)count);
  for (int i = 0; i < count; ++i) {
    codes[i] = (int)below(16);
    if (codes[i] == kTVMNDArrayHandle && !happens(8)) codes[i] = kTVMDLTensorHandle;
    put(out, 4, (uint64_t)codes[i]);
  }
  for (int i = 0; i < count; ++i) put_value(out, codes[i]);
  tvmrt__rpc_end(out, 0);
}

static void make_look_up(tvmrt_buf* out) {
  FUZZ_REQUIRE(tvmrt__rpc_begin(out, TVMRT_RPC_GET_GLOBAL) == 0);
  put(out, 4, 1);
  put(out, 4, kTVMStr);
  put_text(out, names[below(name_count)]);
  tvmrt__rpc_end(out, 0);
}

static void make_noise(tvmrt_buf* out) {
  const size_t size = below(96);
  FUZZ_REQUIRE(tvmrt__rpc_begin(out, (tvmrt_rpc_code)below(24)) == 0);
  for (size_t i = 0; i < size; ++i) put(out, 1, happens(2) ? 0 : draw() & 0xff);
  tvmrt__rpc_end(out, 0);
}

static const tvmrt_buf* any_recorded(void) {
  const recorded_session* s = &recorded[below(RECORDED_SESSIONS)];
  return &s->packets[below(s->count)];
}

/* Correct the length in the header. */
static void mend_length(tvmrt_buf* packet) {
  if (packet->size >= 12) tvmrt__rpc_end(packet, 0);
}

static void write_number(tvmrt_buf* packet, size_t from) {
  const size_t bytes = happens(2) ? 8 : 4;
  const uint64_t number = odd_number();
  if (packet->size < from + bytes) return;
  memcpy(packet->data + from + below((packet->size - from - bytes) / 4 + 1) * 4, &number, bytes);
}

/* Append the end of another packet. */
static void splice(tvmrt_buf* packet) {
  const tvmrt_buf* other = any_recorded();
  const size_t from = below(other->size);
  packet->size = below(packet->size) + 1;
  FUZZ_REQUIRE(tvmrt__buf_append(packet, other->data + from, other->size - from) == 0);
  mend_length(packet);
}

static void change(tvmrt_buf* packet) {
  switch (below(9)) {
    case 0: /* a bit */
      packet->data[below(packet->size)] ^= (char)(1 << below(8));
      return;
    case 1: /* a byte after the header */
      if (packet->size > 12) packet->data[12 + below(packet->size - 12)] = (char)(uint8_t)draw();
      return;
    case 2: /* numbers: counts, codes, handles, extents, sizes */
      write_number(packet, 12);
      return;
    case 3: /* the length, which locates the next packet */
      write_number(packet, 0);
      return;
    case 4: /* the code */
      if (packet->size >= 12) packet->data[8] = (char)(uint8_t)(happens(8) ? draw() : below(24));
      return;
    case 5: /* truncated, with a matching length */
      packet->size = below(packet->size) + 1;
      mend_length(packet);
      return;
    case 6: /* truncated, with the old length */
      packet->size = below(packet->size) + 1;
      return;
    case 7: /* longer */
      for (size_t i = below(40); i > 0; --i) put(packet, 1, draw() & 0xff);
      mend_length(packet);
      return;
    default:
      splice(packet);
  }
}

/* Replace markers by addresses of this session, some of them slightly off. */
static void put_addresses(const tvmrt_rpc_handles* handles, tvmrt_buf* packet) {
  for (size_t at = 12; at + 8 <= packet->size; ++at) {
    const size_t place = (uint8_t)packet->data[at + 7];
    uint64_t address;
    int same = 0;
    while (same < 7 && (uint8_t)packet->data[at + (size_t)same] == ADDRESS_BYTE) ++same;
    if (same < 7 || place >= handles->count || handles->items[place].data == 0) continue;
    address = handles->items[place].data;
    if (happens(16)) address += below(64) - 32;
    memcpy(packet->data + at, &address, 8);
  }
}

/* ---- sessions ---- */

typedef struct session {
  tvmrt_rpc_endpoint ep;
  tvmrt_channel channel;
  pipes p;
} session;

static void answer_all(session* s, counts* c) {
  while (pipes_wait(&s->ep, &s->p)) {
    s->p.out.size = 0;
    if (!fuzz_succeeded(tvmrt__rpc_endpoint_step(&s->ep))) {
      s->ep.ended = true; /* the stream ended within a packet */
      c->broken++;
    } else if (s->p.out.size != 0) {
      *(check_answer(&s->p.out) == TVMRT_RPC_EXCEPTION ? &c->errors : &c->results) += 1;
    }
  }
}

/* Packets sent instead of, or in addition to, the recorded one. */
static void make_packet(tvmrt_buf* out, const tvmrt_buf* true_one) {
  const size_t kind = below(20);
  out->size = 0;
  if (kind < 4) {
    make_call(out);
  } else if (kind < 6) {
    make_look_up(out);
  } else if (kind < 7) {
    make_noise(out);
  } else {
    const tvmrt_buf* from = kind < 9 ? any_recorded() : true_one;
    FUZZ_REQUIRE(tvmrt__buf_append(out, from->data, from->size) == 0);
    if (kind >= 14) return;
    do {
      change(out);
    } while (happens(3));
  }
}

static void send_packet(session* s, counts* c) {
  put_addresses(&s->ep.handles, &s->p.in);
  s->p.at = 0;
  c->packets++;
  answer_all(s, c);
}

/* Parts of a recorded session, so that objects exist, with other packets in between. */
static void run_session(session* s, uint64_t number, uint64_t seed, counts* c) {
  const recorded_session* from;
  current = number;
  random_state = seed * 0xd1342543de82ef95u + number;
  from = &recorded[below(RECORDED_SESSIONS)];
  tvmrt__channel_init(&s->channel, &pipes_kind, &s->p);
  tvmrt__rpc_endpoint_begin(&s->ep, &s->channel, &recorded_limits);
  for (size_t i = 0; i < from->count && !s->ep.ended; ++i) {
    const tvmrt_buf* packet = &from->packets[i];
    const bool first = i == 0 && !happens(32);
    s->p.in.size = 0;
    if (first || !happens(2)) {
      if (!first && happens(16)) continue; /* omitted */
      if (i + 1 == from->count) break;     /* the end by a packet, now and then alone */
      FUZZ_REQUIRE(tvmrt__buf_append(&s->p.in, packet->data, packet->size) == 0);
    } else {
      make_packet(&s->p.in, packet);
      if (happens(2) && i > 0) --i; /* additional */
    }
    if (s->p.in.size > 0 && s->p.in.size <= MAX_PACKET_BYTES) send_packet(s, c);
  }
  tvmrt__rpc_endpoint_end(&s->ep);
  c->sessions++;
}

/* ---- the program ---- */

static bool may_be_called(const char* name) {
  static const char* const refused[] = {"rpc.",
                                        "micro.",
                                        "device_api.",
                                        "runtime.RPCTimeEvaluator",
                                        "runtime.config_threadpool",
                                        "runtime.ModuleSaveToFile",
                                        "runtime.ModuleLoadFromFile",
                                        "runtime.ModuleLoadStaticLibrary",
                                        "runtime.module.loadfile",
                                        "runtime.SaveParamsToFile",
                                        "runtime.LoadParamsFromFile",
                                        "tvm.rpc.server.load_module"};
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); ++i) {
    if (strncmp(name, refused[i], strlen(refused[i])) == 0) return false;
  }
  return true;
}

static void find_names(void) {
  int count;
  const char** all;
  FUZZ_REQUIRE(TVMFuncListGlobalNames(&count, &all) == 0);
  for (int i = 0; i < count; ++i) {
    if (!may_be_called(all[i])) continue;
    FUZZ_REQUIRE(name_count < MAX_NAMES);
    names[name_count] = tvmrt__strdup(all[i]);
    FUZZ_REQUIRE(names[name_count++] != NULL);
  }
}

static void print_session(int signal_number) {
  (void)fprintf(stderr, "hostile_packets: signal %d in session %llu\n", signal_number,
                (unsigned long long)current);
  (void)signal(signal_number, SIG_DFL);
  (void)raise(signal_number);
}

static double seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  const bool one = argc > 2 && strcmp(argv[1], "--session") == 0;
  const uint64_t number = argc > 1 ? strtoull(argv[one ? 2 : 1], NULL, 10) : 10000000;
  const int seed_at = one ? 3 : 2;
  const uint64_t seed = argc > seed_at ? strtoull(argv[seed_at], NULL, 10) : 1;
  static session s;
  counts c = {0, 0, 0, 0, 0};
  double begin;
  (void)signal(SIGABRT, print_session);
  (void)signal(SIGSEGV, print_session);
  (void)signal(SIGBUS, print_session);
  (void)signal(SIGFPE, print_session);
  enter_rpc();
  record_sessions(recorded);
  find_names();
  begin = seconds();
  if (one) run_session(&s, number, seed, &c);
  for (uint64_t i = 0; !one && c.packets < number; ++i) run_session(&s, i, seed, &c);
  printf(
      "%llu packets in %llu sessions, seed %llu, %.1f s: %llu results, %llu errors, %llu streams "
      "cut\n",
      (unsigned long long)c.packets, (unsigned long long)c.sessions, (unsigned long long)seed,
      seconds() - begin, (unsigned long long)c.results, (unsigned long long)c.errors,
      (unsigned long long)c.broken);
  for (size_t i = 0; i < name_count; ++i) free((char*)(uintptr_t)names[i]);
  free_sessions(recorded);
  tvmrt__buf_free(&s.p.in);
  tvmrt__buf_free(&s.p.out);
  /* many sessions must succeed and fail, or the packets would be too valid or too invalid */
  return !one && (c.results < c.packets / 5 || c.errors < c.packets / 5);
}
