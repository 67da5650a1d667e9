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
#include "lines.h"
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

// Finds the cells of one head; Number is float or, of halves, uint16_t.
template <typename Number>
struct Reader {
  const Cache& cache;
  const int64_t* table;
  int64_t kv_head;

  // The cells from `cell` to `seen`, at most a run of them; says how many.
  int64_t find(int64_t cell, int64_t seen, Run<Number>& run) const {
    int64_t count = std::min<int64_t>(kRun, seen - cell);
    for (int64_t c = 0; c < count; ++c) {
      int64_t at = place(cell + c);
      run.keys[c] = static_cast<const Number*>(cache.keys) + at;
      run.values[c] = static_cast<const Number*>(cache.values) + at;
      fetch(run.keys[c]);
      fetch(run.values[c]);
    }
    return count;
  }

 private:
  // Cells of a head are too far apart for the processor's own prefetching.
  void fetch(const Number* from) const {
    for (int64_t i = 0; i < cache.head_dim; i += 64 / int64_t(sizeof(Number)))
      __builtin_prefetch(from + i);
  }

  int64_t place(int64_t cell) const {
    int64_t size = cache.page_size, page = table[cell / size];
    return ((page * size + cell % size) * cache.kv_heads + kv_head) * cache.head_dim;
  }
};

// Halves as floats, for many queries that share them.
struct Floats {
  int64_t stride;
  Lines<float> held;

  explicit Floats(int64_t dim)
      : stride((dim + 15) / 16 * 16), held(size_t(2 * kRun * stride)) {}

  void fill(const Run<uint16_t>& from, int64_t count, int64_t dim, Run<float>& run) {
    for (int64_t c = 0; c < count; ++c) {
      float *key = held.data() + c * stride, *value = key + kRun * stride;
      halves_to_floats(from.keys[c], dim, key);
      halves_to_floats(from.values[c], dim, value);
      run.keys[c] = key;
      run.values[c] = value;
    }
  }
};

// Tokens of a share, `group` queries each, over all cells that any of them sees.
template <int width, typename Number>
void attend_cells(const Cache& cache, const int64_t* table, int64_t kv_head,
                  int64_t group, std::vector<Query>& queries) {
  Head<width> head{cache.head_dim};
  Reader<Number> reader{cache, table, kv_head};
  int64_t most = queries.back().seen;
  float scale = 1 / std::sqrt(float(cache.head_dim));
  auto look = [&](const auto& run, int64_t cell, int64_t count) {
    for (size_t at = 0; at < queries.size(); at += size_t(group)) {
      int64_t seen = std::min(count, queries[at].seen - cell);
      if (seen > 0) head.attend(&queries[at], group, run, seen, scale);
    }
  };
  Floats floats(cache.head_dim);
  auto show = [&](const Run<Number>& run, int64_t cell, int64_t count) {
    if constexpr (sizeof(Number) < sizeof(float)) {
      if (int64_t(queries.size()) > group) {
        Run<float> wide;
        floats.fill(run, count, cache.head_dim, wide);
        return look(wide, cell, count);
      }
    }
    look(run, cell, count);
  };
  Run<Number> runs[2];
  int64_t count = reader.find(0, most, runs[0]);
  for (int64_t cell = 0, turn = 0; cell < most; turn = 1 - turn) {
    // One run ahead: it arrives while this one is looked at.
    int64_t coming = reader.find(cell + count, most, runs[1 - turn]);
    show(runs[turn], cell, count);
    cell += count;
    count = coming;
  }
  for (auto& query : queries) {
    float total = head.total_of(query);
    for (int64_t i = 0; i < cache.head_dim; ++i) query.out[i] /= total;
  }
}

template <int width>
void attend_queries(const Cache& cache, const int64_t* table, int64_t kv_head,
                    int64_t group, std::vector<Query>& queries) {
  for (auto& query : queries) std::fill_n(query.out, cache.head_dim, 0.0f);
  auto attend = attend_cells<width, float>;
  if (cache.halves) attend = attend_cells<width, uint16_t>;
  attend(cache, table, kv_head, group, queries);
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
    if (dim == 64) return attend_queries<64>(cache, table, kv_head, group, queries);
    if (dim == 128) return attend_queries<128>(cache, table, kv_head, group, queries);
    attend_queries<0>(cache, table, kv_head, group, queries);
  });
}
