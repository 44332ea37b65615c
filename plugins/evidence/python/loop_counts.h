/*
 * The end of replay.c where loops are counted: a program that prints a row for each loop, with the
 * most iterations of one execution, all iterations of a run, and whether they depend on data. With
 * an argument, it needs memcheck: the operands of each operator count as undefined.
 */
unsigned long long replay_now[REPLAY_LOOPS], replay_most[REPLAY_LOOPS], replay_total[REPLAY_LOOPS];
unsigned replay_accepted;
static unsigned long long before[REPLAY_LOOPS], first[REPLAY_LOOPS];
static int depends[REPLAY_LOOPS];

static int run_counted(REPLAY_STATE* state) {
  memcpy(before, replay_total, sizeof before);
  MARK_INPUTS
  for (int p = 0; p < REPLAY_POOLS; ++p) MARK(replay_pools[p], replay_pool_bytes[p]);
  for (int o = 0; o < REPLAY_OUTPUTS; ++o) MARK(replay_outputs[o], replay_bytes[o]);
  const unsigned reports = REPLAY_REPORTS();
  const int32_t code = REPLAY_STEP(state, 1);
  const int is_reported = REPLAY_REPORTS() != reports;
  for (int i = 0; i < REPLAY_LOOPS; ++i) {
    unsigned long long undefined = 0;
    (void)VALGRIND_GET_VBITS(&replay_total[i], &undefined, sizeof undefined);
    depends[i] |= undefined != 0 || (is_reported && before[i] != replay_total[i]);
  }
  return code;
}

int main(int count, char** words) {
  (void)words;
  if (count > 1 && !RUNNING_ON_VALGRIND) return 1;
  for (int v = 0; v < (count > 1 ? 1 : REPLAY_VECTORS); ++v) {
    REPLAY_STATE state;
    REPLAY_IN inputs;
    REPLAY_OUT outputs;
    memcpy(&inputs, replay_inputs[v], sizeof replay_inputs[v]);
    memcpy(&outputs, replay_outputs, sizeof replay_outputs);
    memset(replay_total, 0, sizeof replay_total);
    if (REPLAY_BEGIN(&state, &inputs, &outputs) != 0) return 1;
    for (int step = 1; step <= REPLAY_STEPS; ++step) {
      if (run_counted(&state) != (step < REPLAY_STEPS)) return 1;
    }
    if (v == 0) memcpy(first, replay_total, sizeof first);
    for (int i = 0; i < REPLAY_LOOPS; ++i) depends[i] |= replay_total[i] != first[i];
  }
  for (int i = 0; i < REPLAY_LOOPS; ++i)
    printf("%llu %llu %d\n", replay_most[i], replay_total[i], depends[i]);
  return 0;
}
