// The largest of a row of logits.
#pragma once
#include <cmath>
#include <cstdint>

#include "eight.h"

struct Likeliest {
  int64_t token = 0;  // the first, of equals
  float peak = -INFINITY;  // NaN if any is

  void consider(float x, int64_t at) {
    if (x > peak || (x == peak && at < token)) peak = x, token = at;
  }
};

inline Likeliest likeliest_of(const float* logits, int64_t count) {
  constexpr int wide = 4;  // chains: each waits for its own comparison
  const EightInts lanes = {0, 1, 2, 3, 4, 5, 6, 7};
  Eight most[wide];
  EightInts at[wide], broken = {};
  for (int w = 0; w < wide; ++w) most[w] = Eight{} - INFINITY, at[w] = lanes + w * 8;
  int64_t i = 0;
  for (; i + wide * 8 <= count; i += wide * 8)
#pragma GCC unroll 4
    for (int w = 0; w < wide; ++w) {
      Eight x = eight_at(logits + i + w * 8);
      EightInts more = x > most[w];
      most[w] = more ? x : most[w];
      at[w] = more ? lanes + int32_t(i + w * 8) : at[w];
      broken |= x != x;
    }
  Likeliest found;
  bool is_broken = false;
  for (int lane = 0; lane < 8; ++lane) {
    is_broken |= broken[lane] != 0;
    for (int w = 0; w < wide; ++w) found.consider(most[w][lane], at[w][lane]);
  }
  for (; i < count; ++i) {
    is_broken |= std::isnan(logits[i]);
    found.consider(logits[i], i);
  }
  if (is_broken) found.peak = NAN;
  return found;
}
