// Attention over the pages of a cache, read in place.
//
// Queries that share a head of keys pass over each run of cells together, with a
// running maximum and sum each (online softmax, Milakov and Gimelshein 2018).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "head.h"
#include "threads.h"

struct Cache {
  void* keys;  // one layer: [cells][kv_heads][head_dim], floats or halves
  void* values;
  int64_t page_size, kv_heads, head_dim, halves;
};

struct Batch {
  const int64_t *starts, *counts, *firsts;  // [rows]
  const int64_t* tables;                    // [rows][table_width]
  int64_t rows, table_width;
};

constexpr int64_t kTogether = 16;  // tokens of a chunk that share a pass

// Cells of one head, as floats side by side or `stride` apart.
struct Run {
  const float *keys, *values;
  int64_t stride, count;
};

// Reads runs of cells; halves become floats here, once for all queries that share them.
struct Reader {
  const Cache& cache;
  const int64_t* table;
  int64_t kv_head;
  std::vector<float> floats;

  Reader(const Cache& cache, const int64_t* table, int64_t kv_head)
      : cache(cache), table(table), kv_head(kv_head) {
    if (cache.halves) floats.resize(size_t(2 * kRun * cache.head_dim));
  }

  // The cells from `cell` to `seen`, at most a run of them; of floats, which are read in
  // place, not beyond a page.
  Run at(int64_t cell, int64_t seen) {
    int64_t size = cache.page_size, dim = cache.head_dim, stride = cache.kv_heads * dim;
    int64_t count = std::min<int64_t>(kRun, seen - cell);
    if (!cache.halves) {
      count = std::min(count, size - cell % size);
      int64_t at = place(cell);
      return {static_cast<const float*>(cache.keys) + at,
              static_cast<const float*>(cache.values) + at, stride, count};
    }
    float *keys = floats.data(), *values = keys + kRun * dim;
    for (int64_t c = 0; c < count; ++c) {
      int64_t at = place(cell + c);
      halves_to_floats(static_cast<const uint16_t*>(cache.keys) + at, dim,
                       keys + c * dim);
      halves_to_floats(static_cast<const uint16_t*>(cache.values) + at, dim,
                       values + c * dim);
    }
    return {keys, values, dim, count};
  }

  int64_t place(int64_t cell) const {
    int64_t size = cache.page_size, page = table[cell / size];
    return ((page * size + cell % size) * cache.kv_heads + kv_head) * cache.head_dim;
  }
};

template <int width>
void attend_queries(const Cache& cache, const int64_t* table, int64_t kv_head,
                    std::vector<Query>& queries) {
  Head<width> head{cache.head_dim};
  Reader reader(cache, table, kv_head);
  int64_t most = queries.back().seen;
  float scale = 1 / std::sqrt(float(cache.head_dim));
  for (auto& query : queries) std::fill_n(query.out, cache.head_dim, 0.0f);
  for (int64_t cell = 0; cell < most;) {
    Run run = reader.at(cell, most);
    for (auto& query : queries) {
      int64_t count = std::min(run.count, query.seen - cell);
      if (count > 0) head.attend(query, run, count, scale);
    }
    cell += run.count;
  }
  for (auto& query : queries) {
    float total = head.total_of(query);
    for (int64_t i = 0; i < cache.head_dim; ++i) query.out[i] /= total;
  }
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
