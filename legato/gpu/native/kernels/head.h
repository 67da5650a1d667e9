// Heads of attention: queries, and a run of keys and values.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cells.h"
#include "eight.h"

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
  float scale;

  float total_of(const Query& query) const { return query.totals[0]; }

  template <typename Number>
  void attend(Query* queries, int64_t many, const Cells<Number>& cells, int64_t count,
              const Cells<Number>&) const {
    for (int64_t i = 0; i < many; ++i) attend_one(queries[i], cells, count);
  }

 private:
  template <typename Number>
  void attend_one(Query& query, const Cells<Number>& cells, int64_t count) const {
    float weights[kRun], peak = query.peak;
    for (int64_t c = 0; c < count; ++c) {
      weights[c] = 0;
      for (int64_t i = 0; i < size; ++i)
        weights[c] += query.q[i] * one_at(cells.key(c) + i);
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
        query.out[i] += weight * one_at(cells.value(c) + i);
    }
  }
};

// Of 64 or 128, in registers; up to three queries share what is read.
template <int width>
  requires(width > 0)
struct Head<width> {
  int64_t size;
  float scale;

  float total_of(const Query& query) const { return sum_of(query.totals); }

  // Reads `coming` ahead. Not inline: who reads halves and who reads floats share what
  // is compiled.
  template <typename Number>
  [[gnu::noinline]] void attend(Query* queries, int64_t many,
                                const Cells<Number>& cells, int64_t count,
                                const Cells<Number>& coming) const {
    for (; many >= 3; many -= 3, queries += 3)
      pass<3>(queries, cells, count, coming);
    if (many == 2) pass<2>(queries, cells, count, coming);
    if (many == 1) pass<1>(queries, cells, count, coming);
  }

 private:
  template <int many>
  struct Weights {
    Eight of[many][kRun / 8];  // scores, then what a value counts for
    float shrink[many];        // of what was gathered before
  };

  template <int many, typename Number>
  void pass(Query* queries, const Cells<Number>& cells, int64_t count,
            const Cells<Number>& coming) const {
    Weights<many> weights;
    int64_t used = (count + 7) / 8;
    for (int64_t i = 0; i < used; ++i)
      score<many>(queries, cells, i, count, coming, weights);
    weigh<many>(queries, used, weights);
    // As many sums as hide the time of an addition, and fit into registers.
    constexpr int wide = many == 1 ? 8 : 4;
    for (int from = 0; from < width; from += wide * 8)
      gather<many, wide>(queries, cells, count, coming, weights, from);
  }

  // Dot products with the eight keys of part `i`; beyond `count`, -infinity.
  template <int many, typename Number>
  void score(const Query* queries, const Cells<Number>& cells, int64_t i, int64_t count,
             const Cells<Number>& coming, Weights<many>& found) const {
    Eight fourths[2][many];
    for (int side = 0; side < 2; ++side) {
      int64_t first = i * 8 + side * 4;
      // Where eight are not left the last is taken again: numbers are the same bits
      // whatever stands beside them.
      const Number* keys[4];
      for (int c = 0; c < 4; ++c) {
        keys[c] = cells.key(std::min(first + c, count - 1));
        fetch(coming.key(first + c), width);
      }
      Eight sums[many][4] = {};
#pragma GCC unroll 2
      for (int at = 0; at < width; at += 8) {
        Eight q[many];
#pragma GCC unroll 3
        for (int m = 0; m < many; ++m) q[m] = held(eight_at(queries[m].q + at));
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
          Eight key = held(eight_at(keys[c] + at));
#pragma GCC unroll 3
          for (int m = 0; m < many; ++m) sums[m][c] += q[m] * key;
        }
      }
#pragma GCC unroll 3
      for (int m = 0; m < many; ++m)
        fourths[side][m] =
            pairs(pairs(sums[m][0], sums[m][1]), pairs(sums[m][2], sums[m][3]));
    }
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m)
      found.of[m][i] = first_of(fours(fourths[0][m], fourths[1][m]) * (scale * 1.44269504f),
                                int32_t(count - i * 8));
  }

  // Turns scores into weights, of several queries in turns: each waits for its own.
  template <int many>
  static void weigh(Query* queries, int64_t used, Weights<many>& weights) {
    Eight peaks[many], sunk = {};
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m) {
      Eight most = weights.of[m][0];
      for (int64_t i = 1; i < used; ++i) most = larger(most, weights.of[m][i]);
      // No maximum needs to hold a NaN: the weights do.
      float peak = std::max(queries[m].peak, max_of(most));
      sunk[m] = queries[m].peak - peak;
      queries[m].peak = peak;
      peaks[m] = Eight{} + peak;
    }
    Eight shrink = exp2_of_negative(sunk);
    Eight totals[many];
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m) {
      weights.shrink[m] = shrink[m];
      totals[m] = queries[m].totals * shrink[m];
    }
    for (int64_t i = 0; i < used; ++i)
#pragma GCC unroll 3
      for (int m = 0; m < many; ++m) {
        Eight weight = exp2_of_negative(weights.of[m][i] - peaks[m]);
        totals[m] += weight;
        weights.of[m][i] = weight;
      }
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m) queries[m].totals = totals[m];
  }

  // Adds weighed values to what was gathered, which shrinks first.
  template <int many, int wide, typename Number>
  static void gather(Query* queries, const Cells<Number>& cells, int64_t count,
                     const Cells<Number>& coming, const Weights<many>& weights,
                     int from) {
    Eight sums[many][wide];
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m)
#pragma GCC unroll 8
      for (int i = 0; i < wide; ++i)
        sums[m][i] = eight_at(queries[m].out + from + i * 8) * weights.shrink[m];
    const float* of = reinterpret_cast<const float*>(weights.of);
    for (int64_t c = 0; c < count; ++c) {
      const Number* values = cells.value(c) + from;
      fetch(coming.value(c) + from, wide * 8);
      Eight weight[many];
#pragma GCC unroll 3
      for (int m = 0; m < many; ++m) weight[m] = held(Eight{} + of[m * kRun + c]);
#pragma GCC unroll 8
      for (int i = 0; i < wide; ++i) {
        Eight value = held(eight_at(values + i * 8));
#pragma GCC unroll 3
        for (int m = 0; m < many; ++m) sums[m][i] += weight[m] * value;
      }
    }
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m)
#pragma GCC unroll 8
      for (int i = 0; i < wide; ++i) put(sums[m][i], queries[m].out + from + i * 8);
  }

  // Halves come from memory, and cells of a head are too far apart for the processor's
  // own prefetching. Floats were mostly made of halves a moment ago.
  template <typename Number>
  static void fetch(const Number* from, int count) {
    constexpr int line = kLine / sizeof(Number);
    if constexpr (sizeof(Number) < sizeof(float))
      for (int i = 0; i < count; i += line) __builtin_prefetch(from + i);
  }
};
