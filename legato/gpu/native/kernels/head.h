// One head of attention: a query and a run of keys and values.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "eight.h"

constexpr int kRun = 32;  // cells looked at together: keys and values of 16 KiB

struct Query {
  const float* q;
  float* out;
  int64_t seen;  // cells it may see
  float peak = -INFINITY;
  Eight totals = {};  // of the weights, in lanes
};

// Of any width, in plain loops.
template <int width>
struct Head {
  int64_t size;

  float total_of(const Query& query) const { return query.totals[0]; }

  template <typename Cells>
  void attend(Query& query, const Cells& run, int64_t count, float scale) const {
    float weights[kRun], peak = query.peak;
    for (int64_t c = 0; c < count; ++c) {
      weights[c] = 0;
      for (int64_t i = 0; i < size; ++i)
        weights[c] += query.q[i] * run.keys[c * run.stride + i];
      weights[c] *= scale;
      peak = std::max(peak, weights[c]);
    }
    float shrink = fast_exp(query.peak - peak);
    query.peak = peak;
    query.totals[0] *= shrink;
    for (int64_t i = 0; i < size; ++i) query.out[i] *= shrink;
    for (int64_t c = 0; c < count; ++c) {
      float weight = fast_exp(weights[c] - peak);
      query.totals[0] += weight;
      for (int64_t i = 0; i < size; ++i)
        query.out[i] += weight * run.values[c * run.stride + i];
    }
  }
};

// Of 64 or 128, in registers.
template <int width>
  requires(width > 0)
struct Head<width> {
  int64_t size;

  float total_of(const Query& query) const { return sum_of(query.totals); }

  template <typename Cells>
  void attend(Query& query, const Cells& run, int64_t count, float scale) const {
    Eight parts[kRun / 8], most = Eight{} - INFINITY;
    int64_t used = (count + 7) / 8;
    for (int64_t i = 0; i < used; ++i) {
      parts[i] = scores(query.q, run, i * 8, count) * scale;
      most = larger(most, parts[i]);
    }
    // No maximum needs to hold a NaN: the weights do.
    float peak = std::max(query.peak, max_of(most));
    float shrink = fast_exp(query.peak - peak);
    query.peak = peak;
    query.totals *= shrink;
    for (int64_t i = 0; i < used; ++i) {
      parts[i] = exp_of_negative(parts[i] - peak);
      query.totals += parts[i];
    }
    float weights[kRun];
    std::memcpy(weights, parts, sizeof weights);
    gather(weights, run, count, shrink, query.out);
  }

 private:
  // Dot products with eight keys from `from` on; beyond `count`, -infinity.
  template <typename Cells>
  static Eight scores(const float* q, const Cells& run, int64_t from, int64_t count) {
    // Where eight are not left the last is taken again: numbers are the same bits
    // whatever stands beside them.
    const float* keys[8];
    for (int c = 0; c < 8; ++c)
      keys[c] = run.keys + std::min(from + c, count - 1) * run.stride;
    Eight sums[8] = {};
    for (int i = 0; i < width; i += 8) {
      Eight part = eight_at(q + i);
#pragma GCC unroll 8
      for (int c = 0; c < 8; ++c) sums[c] += part * eight_at(keys[c] + i);
    }
    Eight all = fours(twos(pairs(sums[0], sums[1]), pairs(sums[2], sums[3])),
                      twos(pairs(sums[4], sums[5]), pairs(sums[6], sums[7])));
    return first_of(all, int32_t(count - from));
  }

  // Adds weighed values to `out`, which shrinks first.
  template <typename Cells>
  static void gather(const float* weights, const Cells& run, int64_t count,
                     float shrink, float* out) {
    for (int part = 0; part < width; part += 64, out += 64) {
      Eight sums[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) sums[i] = eight_at(out + i * 8) * shrink;
      for (int64_t c = 0; c < count; ++c) {
        const float* value = run.values + c * run.stride + part;
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) sums[i] += weights[c] * eight_at(value + i * 8);
      }
      std::memcpy(out, sums, sizeof sums);
    }
  }
};
