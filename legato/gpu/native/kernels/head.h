// Heads of attention: a token's queries and a run of keys and values.
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

// Where cells of one head are, as floats or halves.
template <typename Number>
struct Run {
  const Number *keys[kRun], *values[kRun];
};

// Of any width, in plain loops.
template <int width>
struct Head {
  int64_t size;

  float total_of(const Query& query) const { return query.totals[0]; }

  template <typename Number>
  void attend(Query* queries, int64_t many, const Run<Number>& run, int64_t count,
              float scale) const {
    for (int64_t i = 0; i < many; ++i) attend_one(queries[i], run, count, scale);
  }

 private:
  template <typename Number>
  void attend_one(Query& query, const Run<Number>& run, int64_t count,
                  float scale) const {
    float weights[kRun], peak = query.peak;
    for (int64_t c = 0; c < count; ++c) {
      weights[c] = 0;
      for (int64_t i = 0; i < size; ++i)
        weights[c] += query.q[i] * one_at(run.keys[c] + i);
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
        query.out[i] += weight * one_at(run.values[c] + i);
    }
  }
};

// Of 64 or 128, in registers; up to three queries share what is read.
template <int width>
  requires(width > 0)
struct Head<width> {
  int64_t size;

  float total_of(const Query& query) const { return sum_of(query.totals); }

  // Not inline: who reads halves and who reads floats share what is compiled.
  template <typename Number>
  [[gnu::noinline]] void attend(Query* queries, int64_t many, const Run<Number>& run,
                                int64_t count, float scale) const {
    for (; many >= 3; many -= 3, queries += 3) pass<3>(queries, run, count, scale);
    if (many == 2) pass<2>(queries, run, count, scale);
    if (many == 1) pass<1>(queries, run, count, scale);
  }

 private:
  template <int many, typename Number>
  static void pass(Query* queries, const Run<Number>& run, int64_t count,
                   float scale) {
    Eight parts[many][kRun / 8];
    int64_t used = (count + 7) / 8;
    for (int64_t i = 0; i < used; ++i) {
      Eight found[many];
      score<many>(queries, run, i * 8, count, found);
      for (int m = 0; m < many; ++m) parts[m][i] = found[m] * scale;
    }
    float weights[many][kRun], shrink[many];
    for (int m = 0; m < many; ++m)
      shrink[m] = weigh(queries[m], parts[m], used, weights[m]);
    // As many sums as hide the time of an addition, and fit into registers.
    constexpr int wide = many == 1 ? 8 : 4;
    for (int from = 0; from < width; from += wide * 8)
      gather<many, wide>(queries, run, count, shrink, weights, from);
  }

  // Dot products with eight keys from `first` on; beyond `count`, -infinity.
  template <int many, typename Number>
  static void score(const Query* queries, const Run<Number>& run, int64_t first,
                    int64_t count, Eight* found) {
    Eight fourths[2][many];
    for (int side = 0; side < 2; ++side) {
      // Where eight are not left the last is taken again: numbers are the same bits
      // whatever stands beside them.
      const Number* keys[4];
      for (int c = 0; c < 4; ++c)
        keys[c] = run.keys[std::min(first + side * 4 + c, count - 1)];
      Eight sums[many][4] = {};
#pragma GCC unroll 2
      for (int i = 0; i < width; i += 8)
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
          Eight key = eight_at(keys[c] + i);
#pragma GCC unroll 3
          for (int m = 0; m < many; ++m) sums[m][c] += eight_at(queries[m].q + i) * key;
        }
#pragma GCC unroll 3
      for (int m = 0; m < many; ++m)
        fourths[side][m] =
            twos(pairs(sums[m][0], sums[m][1]), pairs(sums[m][2], sums[m][3]));
    }
    for (int m = 0; m < many; ++m)
      found[m] = first_of(fours(fourths[0][m], fourths[1][m]), int32_t(count - first));
  }

  // Turns a query's scores into weights; returns what is left of what it gathered.
  static float weigh(Query& query, Eight* parts, int64_t used, float* weights) {
    Eight most = Eight{} - INFINITY;
    for (int64_t i = 0; i < used; ++i) most = larger(most, parts[i]);
    // No maximum needs to hold a NaN: the weights do.
    float peak = std::max(query.peak, max_of(most));
    float shrink = fast_exp(query.peak - peak);
    query.peak = peak;
    query.totals *= shrink;
    for (int64_t i = 0; i < used; ++i) {
      parts[i] = exp_of_negative(parts[i] - peak);
      query.totals += parts[i];
    }
    std::memcpy(weights, parts, sizeof(Eight) * size_t(used));
    return shrink;
  }

  // Adds weighed values to what was gathered, which shrinks first.
  template <int many, int wide, typename Number>
  static void gather(Query* queries, const Run<Number>& run, int64_t count,
                     const float* shrink, const float (*weights)[kRun], int from) {
    Eight sums[many][wide];
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m)
#pragma GCC unroll 8
      for (int i = 0; i < wide; ++i)
        sums[m][i] = eight_at(queries[m].out + from + i * 8) * shrink[m];
    for (int64_t c = 0; c < count; ++c)
#pragma GCC unroll 8
      for (int i = 0; i < wide; ++i) {
        Eight value = eight_at(run.values[c] + from + i * 8);
#pragma GCC unroll 3
        for (int m = 0; m < many; ++m) sums[m][i] += weights[m][c] * value;
      }
#pragma GCC unroll 3
    for (int m = 0; m < many; ++m)
      std::memcpy(queries[m].out + from, sums[m], sizeof sums[m]);
  }
};
