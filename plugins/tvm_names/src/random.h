/* SplitMix64: one chain of multiplications per number; any seed works. Not secure. */
#ifndef TVMRT_PLUGINS_TVM_NAMES_RANDOM_H_
#define TVMRT_PLUGINS_TVM_NAMES_RANDOM_H_

#include <stdint.h>

static inline uint64_t names_next_random(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#endif /* TVMRT_PLUGINS_TVM_NAMES_RANDOM_H_ */
