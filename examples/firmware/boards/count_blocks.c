/*
 * A plug-in of QEMU that counts how often each block of code is executed, for tvmrt inspect
 * --board.
 *
 * Arguments: begin=, end= and fail= are the addresses where counting starts, ends with success and
 * ends with failure. main=FROM-TO, at most twice, is the code whose calls are counted separately.
 * ram=FROM-TO is memory without wait states. line=, code= and data= are the bytes of a flash line
 * and of the buffers for instructions and for data. out= is the output file. Addresses are
 * hexadecimal.
 *
 * Lines of the file: "call SITE CODE_NEXT CODE_JUMP DATA" for each call of main, in the order of
 * first calls. SITE is the return address; the counts are flash lines that were read: the line
 * after the previous one, other lines, and lines of data. Then "block CALL ADDRESS INSTRUCTIONS
 * COUNT JUMPS"; JUMPS counts how often the next block was not the following one.
 *
 * QEMU's header is not installed everywhere, so its functions are declared here.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
typedef uint32_t memory_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
/* QEMU 7 takes reads alone for writes, so both are asked for. */
enum { NO_REGISTERS = 0, ACCESSES = 3 };

/* QEMU up to 8 takes 0 and 1, later ones 2. */
#ifndef API
#define API 1
#endif
extern int qemu_plugin_version;
int qemu_plugin_version = API;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*call)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* tb, void (*call)(unsigned, void*),
                                          int registers, void* data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* insn,
                                      void (*call)(unsigned, memory_info, uint64_t, void*),
                                      int registers, int which, void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* tb, size_t idx);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn* insn);
_Bool qemu_plugin_mem_is_store(memory_info info);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn* insn);
int qemu_plugin_install(plugin_id id, const void* info, int argc, char** argv);

struct range {
  uint64_t from, to;
};

/* A block under one call; a block that two calls execute has two of them. */
struct count {
  struct count* next;
  unsigned call;
  uint64_t times, jumps;
};

struct block {
  struct block* next;
  uint64_t from, to;
  size_t instructions;
  struct count* counts;
};

struct call {
  uint64_t site, code_next, code_jump, data;
};

enum { MAX_CALLS = 1 << 14, MAX_LINES = 1 << 16 };

static uint64_t begin, end, fail, line_bytes = 16, num_code_lines = 1, num_data_lines = 1;
static struct range main_ranges[2], ram;
static int num_main_ranges, counting;
static char out[1024];
static struct block* blocks;
static struct block* last;
static struct count* last_count;
static struct call calls[MAX_CALLS];
static unsigned num_calls, current;
static uint64_t last_line;
static uint64_t code_cache[MAX_LINES], data_cache[MAX_LINES]; /* a line's number and one more */

static int is_in_range(const struct range* range, uint64_t at) {
  return at >= range->from && at < range->to;
}

static int is_in_main(uint64_t at) {
  return is_in_range(&main_ranges[0], at) ||
         (num_main_ranges > 1 && is_in_range(&main_ranges[1], at));
}

static void fail_with(const char* why) {
  fprintf(stderr, "count_blocks: %s\n", why);
  _Exit(4);
}

static void* allocate(size_t bytes) {
  void* memory = calloc(1, bytes);
  if (memory == NULL) fail_with("out of memory");
  return memory;
}

static unsigned call_at(uint64_t site) {
  for (unsigned i = 0; i < num_calls; i++) {
    if (calls[i].site == site) return i;
  }
  if (num_calls == MAX_CALLS) fail_with("too many calls");
  calls[num_calls].site = site;
  return num_calls++;
}

/* Whether a line had to be read; it is kept now. */
static int is_cache_miss(uint64_t* cache_lines, uint64_t lines, uint64_t line) {
  uint64_t* slot = &cache_lines[line % lines];
  if (*slot == line + 1) return 0;
  *slot = line + 1;
  return 1;
}

static void write_out(void) {
  FILE* file = fopen(out, "w");
  if (file == NULL) fail_with("the counts cannot be written");
  for (unsigned i = 0; i < num_calls; i++) {
    const struct call* c = &calls[i];
    fprintf(file, "call %llx %llu %llu %llu\n", (unsigned long long)c->site,
            (unsigned long long)c->code_next, (unsigned long long)c->code_jump,
            (unsigned long long)c->data);
  }
  for (const struct block* b = blocks; b != NULL; b = b->next) {
    for (const struct count* c = b->counts; c != NULL; c = c->next) {
      fprintf(file, "block %u %llx %zu %llu %llu\n", c->call, (unsigned long long)b->from,
              b->instructions, (unsigned long long)c->times, (unsigned long long)c->jumps);
    }
  }
  if (fclose(file) != 0) fail_with("the counts cannot be written");
}

static void fetch(const struct block* block) {
  if (is_in_range(&ram, block->from)) return;
  const uint64_t to = (block->to - 1) / line_bytes;
  for (uint64_t line = block->from / line_bytes; line <= to; line++) {
    if (line == last_line) continue;
    if (is_cache_miss(code_cache, num_code_lines, line)) {
      *(line == last_line + 1 ? &calls[current].code_next : &calls[current].code_jump) += 1;
    }
    last_line = line;
  }
}

static struct count* count_of(struct block* block, unsigned call) {
  struct count* memory = block->counts;
  if (memory != NULL && memory->call == call) return memory;
  while (memory != NULL && memory->call != call) memory = memory->next;
  if (memory == NULL) {
    memory = allocate(sizeof(*memory));
    memory->call = call;
    memory->next = block->counts;
    block->counts = memory;
  }
  return memory;
}

static void on_block_executed(unsigned cpu, void* data) {
  struct block* block = data;
  (void)cpu;
  if (block->from == begin) {
    counting = 1;
    current = call_at(0);
    last = NULL;
    return;
  }
  if (!counting) return;
  if (block->from == end || block->from == fail) {
    write_out();
    _Exit(block->from == end ? 0 : 3); /* not by QEMU, whose other threads go on */
  }
  if (last != NULL && last->to != block->from) last_count->jumps++;
  if (is_in_main(block->from)) {
    current = 0;
  } else if (last != NULL && is_in_main(last->from)) {
    current = call_at(last->to);
  }
  fetch(block);
  last = block;
  last_count = count_of(block, current);
  last_count->times++;
}

static void read_memory(unsigned cpu, memory_info info, uint64_t at, void* data) {
  (void)cpu, (void)data;
  if (!counting || is_in_range(&ram, at) || qemu_plugin_mem_is_store(info)) return;
  calls[current].data += (uint64_t)is_cache_miss(data_cache, num_data_lines, at / line_bytes);
}

static void on_block_translated(plugin_id id, struct qemu_plugin_tb* tb) {
  const size_t n = qemu_plugin_tb_n_insns(tb);
  struct block* block = allocate(sizeof(*block));
  (void)id;
  for (size_t i = 0; i < n; i++) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    if (i == 0) block->from = qemu_plugin_insn_vaddr(insn);
    block->to = qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn);
    qemu_plugin_register_vcpu_mem_cb(insn, read_memory, NO_REGISTERS, ACCESSES, NULL);
  }
  block->instructions = n;
  block->next = blocks;
  blocks = block;
  qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block_executed, NO_REGISTERS, block);
}

static void read_range(const char* text, struct range* range) {
  char* rest;
  range->from = strtoull(text, &rest, 16);
  range->to = *rest == '-' ? strtoull(rest + 1, NULL, 16) : range->from;
}

/* How many lines of flash are kept: one at least. */
static uint64_t lines_of(const char* text) {
  const uint64_t lines = strtoull(text, NULL, 16) / line_bytes;
  return lines < 1 ? 1 : lines > MAX_LINES ? MAX_LINES : lines;
}

int qemu_plugin_install(plugin_id id, const void* info, int argc, char** argv) {
  (void)info;
  for (int i = 0; i < argc; i++) {
    const char* value = strchr(argv[i], '=');
    if (value == NULL) return -1;
    const size_t n = (size_t)(value++ - argv[i]);
    if (!strncmp(argv[i], "begin", n)) begin = strtoull(value, NULL, 16);
    if (!strncmp(argv[i], "end", n)) end = strtoull(value, NULL, 16);
    if (!strncmp(argv[i], "fail", n)) fail = strtoull(value, NULL, 16);
    if (!strncmp(argv[i], "main", n) && num_main_ranges < 2)
      read_range(value, &main_ranges[num_main_ranges++]);
    if (!strncmp(argv[i], "ram", n)) read_range(value, &ram);
    if (!strncmp(argv[i], "line", n)) line_bytes = strtoull(value, NULL, 16);
    if (!strncmp(argv[i], "code", n)) num_code_lines = lines_of(value);
    if (!strncmp(argv[i], "data", n)) num_data_lines = lines_of(value);
    if (!strncmp(argv[i], "out", n)) snprintf(out, sizeof(out), "%s", value);
  }
  if (line_bytes == 0) return -1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block_translated);
  return 0;
}
