// Attention over the pages of a float32 cache, read in place.
//
// Queries that share a head of keys pass over each run of cells together, with a
// running maximum and sum each (online softmax, Milakov and Gimelshein 2018).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "threads.h"

struct Cache {
  float* keys;  // one layer: [cells][kv_heads][head_dim]
  float* values;
  int64_t page_size, kv_heads, head_dim;
};

struct Batch {
  const int64_t *starts, *counts, *firsts;  // [rows]
  const int64_t* tables;                    // [rows][table_width]
  int64_t rows, table_width;
};

constexpr int kRun = 16;          // cells looked at together
constexpr int64_t kTogether = 8;  // tokens of a chunk that share a pass

// exp to 2 units in the last place, in a form that compilers vectorise; NaN stays.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  float whole = std::nearbyint(x * 1.44269504f);
  float rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  float power = 1.0f / 720;
  for (float term : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    power = power * rest + term;
  int32_t bits = (int32_t(whole) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return power * scale;
}

struct Query {
  const float* q;
  float* out;
  int64_t seen;  // cells it may see
  float peak = -INFINITY, total = 0;
};

// Eight numbers, wherever they lie.
typedef float Eight __attribute__((vector_size(32)));

inline Eight eight_at(const float* from) {
  Eight eight;
  std::memcpy(&eight, from, sizeof eight);
  return eight;
}

// Sums neighbours: a's and b's, in turn.
inline Eight pairs(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
         __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}

inline Eight twos(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
         __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}

inline Eight fours(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

// A head whose width is a multiple of 64, in registers; of 0, any, in plain loops.
template <int width>
struct Head {
  int64_t size;

  // Dot products with `count` keys.
  void score(const float* q, const float* keys, int64_t stride, int64_t count,
             float* scores) const {
    if constexpr (width == 0) {
      for (int64_t c = 0; c < count; ++c) {
        scores[c] = 0;
        for (int64_t i = 0; i < size; ++i) scores[c] += q[i] * keys[c * stride + i];
      }
    } else {
      for (int64_t first = 0; first < count; first += 8) {
        // Where eight are not left the last is taken again: numbers are the same bits
        // whatever stands beside them.
        const float* key[8];
        for (int c = 0; c < 8; ++c)
          key[c] = keys + std::min<int64_t>(first + c, count - 1) * stride;
        Eight sums[8] = {};
        for (int i = 0; i < width; i += 8) {
          Eight part = eight_at(q + i);
#pragma GCC unroll 8
          for (int c = 0; c < 8; ++c) sums[c] += part * eight_at(key[c] + i);
        }
        Eight low = fours(twos(pairs(sums[0], sums[1]), pairs(sums[2], sums[3])),
                          twos(pairs(sums[4], sums[5]), pairs(sums[6], sums[7])));
        std::memcpy(scores + first, &low, sizeof low);
      }
    }
  }

  // Adds weighed values to `out`, which shrinks first.
  void gather(const float* weights, const float* values, int64_t stride, int64_t count,
              float shrink, float* out) const {
    if constexpr (width == 0) {
      for (int64_t i = 0; i < size; ++i) out[i] *= shrink;
      for (int64_t c = 0; c < count; ++c)
        for (int64_t i = 0; i < size; ++i)
          out[i] += weights[c] * values[c * stride + i];
    } else {
      for (int first = 0; first < width; first += 64) {
        Eight sums[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) sums[i] = eight_at(out + first + i * 8) * shrink;
        for (int64_t c = 0; c < count; ++c) {
          const float* value = values + c * stride + first;
#pragma GCC unroll 8
          for (int i = 0; i < 8; ++i) sums[i] += weights[c] * eight_at(value + i * 8);
        }
        std::memcpy(out + first, sums, sizeof sums);
      }
    }
  }

  void attend(Query& query, const float* keys, const float* values, int64_t stride,
              int64_t count, float scale) const {
    float weights[kRun], peak = query.peak, shrink = 1;
    score(query.q, keys, stride, count, weights);
    for (int64_t c = 0; c < count; ++c) {
      weights[c] *= scale;
      peak = weights[c] <= peak ? peak : weights[c];  // NaN wins
    }
    if (peak != query.peak) {
      shrink = fast_exp(query.peak - peak);
      query.total *= shrink;
      query.peak = peak;
    }
    for (int64_t c = count; c < kRun; ++c) weights[c] = -INFINITY;
    for (int64_t c = 0; c < kRun; ++c) weights[c] = fast_exp(weights[c] - peak);
    for (int64_t c = 0; c < count; ++c) query.total += weights[c];
    gather(weights, values, stride, count, shrink, query.out);
  }
};

template <int width>
void attend_queries(const Cache& cache, const int64_t* table, int64_t kv_head,
                    std::vector<Query>& queries) {
  Head<width> head{cache.head_dim};
  int64_t stride = cache.kv_heads * cache.head_dim, size = cache.page_size;
  float scale = 1 / std::sqrt(float(cache.head_dim));
  for (auto& query : queries) std::fill_n(query.out, cache.head_dim, 0.0f);
  for (int64_t cell = 0; cell < queries.back().seen;) {
    int64_t run = std::min<int64_t>(kRun, size - cell % size);
    int64_t at = (table[cell / size] * size + cell % size) * stride;
    at += kv_head * cache.head_dim;
    for (auto& query : queries) {
      int64_t count = std::min(run, query.seen - cell);
      if (count > 0)
        head.attend(query, cache.keys + at, cache.values + at, stride, count, scale);
    }
    cell += run;
  }
  for (auto& query : queries)
    for (int64_t i = 0; i < cache.head_dim; ++i) query.out[i] /= query.total;
}

struct Share {
  int64_t row, token, count;
};

inline std::vector<Share> shares_of(const Batch& batch) {
  std::vector<Share> shares;
  for (int64_t row = 0; row < batch.rows; ++row)
    for (int64_t token = 0; token < batch.counts[row]; token += kTogether)
      shares.push_back({row, token, std::min(kTogether, batch.counts[row] - token)});
  return shares;
}

// q: row stride q_stride, heads side by side; out: [tokens][heads][head_dim].
inline void attend(Pool& pool, const Cache& cache, const Batch& batch, const float* q,
                   int64_t q_stride, int64_t heads, float* out) {
  auto shares = shares_of(batch);
  int64_t dim = cache.head_dim, group = heads / cache.kv_heads;
  pool.run(int64_t(shares.size()) * cache.kv_heads, [&](int64_t item) {
    // The longest pasts, which come last, are taken first: items count down.
    const Share& share = shares[item / cache.kv_heads];
    int64_t kv_head = item % cache.kv_heads;
    std::vector<Query> queries;
    for (int64_t t = share.token; t < share.token + share.count; ++t)
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        int64_t at = batch.firsts[share.row] + t;
        queries.push_back({q + at * q_stride + head * dim,
                           out + (at * heads + head) * dim,
                           batch.starts[share.row] + t + 1});
      }
    const int64_t* table = batch.tables + share.row * batch.table_width;
    if (dim == 64) return attend_queries<64>(cache, table, kv_head, queries);
    if (dim == 128) return attend_queries<128>(cache, table, kv_head, queries);
    attend_queries<0>(cache, table, kv_head, queries);
  });
}
