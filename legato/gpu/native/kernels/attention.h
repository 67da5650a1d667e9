// Attention over the pages of a cache, read in place.
//
// Queries that share a head of keys pass over each run of cells together, with a
// running maximum and sum each (online softmax, Milakov and Gimelshein 2018).
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "head.h"
#include "threads.h"

struct Batch {
  const int64_t *starts, *counts, *firsts;  // [rows]
  const int64_t* tables;                    // [rows][table_width]
  int64_t rows, table_width;
};

constexpr int64_t kTogether = 32;  // tokens of a chunk that share a pass

// Tokens of a row and some of its heads of keys.
struct Share {
  int64_t row, token, tokens, head, heads;
};

// What one call attends to.
struct Attending {
  const Cache& cache;
  const Batch& batch;
  const float* q;  // row stride q_stride, heads side by side
  int64_t q_stride, heads;
  float* out;  // [tokens][heads][head_dim]

  int64_t group() const { return heads / cache.kv_heads; }

  // By head of keys, then by token.
  std::vector<Query> queries_of(const Share& share) const {
    std::vector<Query> queries;
    queries.reserve(size_t(share.tokens * share.heads * group()));
    int64_t first = batch.firsts[share.row] + share.token;
    int64_t seen = batch.starts[share.row] + share.token + 1, dim = cache.head_dim;
    for (int64_t kv_head = share.head; kv_head < share.head + share.heads; ++kv_head)
      for (int64_t t = 0; t < share.tokens; ++t)
        for (int64_t head = kv_head * group(); head < (kv_head + 1) * group(); ++head)
          queries.push_back({q + (first + t) * q_stride + head * dim,
                             out + ((first + t) * heads + head) * dim, seen + t});
    return queries;
  }
};

// Queries of one head, in order of what they see, look at cells from `cell` on.
template <int width, typename Number>
void look(const Head<width>& head, Query* queries, int64_t many, int64_t cell,
          const Cells<Number>& cells, const Cells<Number>& coming) {
  int64_t count = cells.run->count, at = 0;
  for (int64_t end; at < many && queries[at].seen - cell < count; at = end) {
    int64_t seen = queries[at].seen - cell;
    for (end = at + 1; end < many && queries[end].seen - cell == seen;) ++end;
    if (seen > 0) head.attend(queries + at, end - at, cells, seen, coming);
  }
  head.attend(queries + at, many - at, cells, count, coming);
}

// A share's queries over all cells that any of them sees: run by run, head by head, as
// they lie in memory.
template <int width, typename Number>
void attend_share(const Attending& to, const Share& share) {
  const Cache& cache = to.cache;
  std::vector<Query> queries = to.queries_of(share);
  for (Query& query : queries) std::fill_n(query.out, cache.head_dim, 0.0f);
  Head<width> head{cache.head_dim, 1 / std::sqrt(float(cache.head_dim))};
  Walk<Number> walk(cache, to.batch.tables + share.row * to.batch.table_width,
                    queries.back().seen);
  bool widened = sizeof(Number) < sizeof(float) && share.tokens > 1;
  Floats floats(widened ? cache.head_dim : 0);
  Run<Number> runs[2];
  walk.find(runs[0]);
  int64_t each = share.tokens * to.group(), dim = cache.head_dim;
  for (int64_t cell = 0, turn = 0; runs[turn].count; turn = 1 - turn) {
    const Run<Number>& run = runs[turn];
    walk.find(runs[1 - turn]);
    for (int64_t i = 0; i < share.heads; ++i) {
      bool last = i == share.heads - 1;
      Cells<Number> cells{&run, (share.head + i) * dim};
      Cells<Number> coming{last ? &runs[1 - turn] : &run,
                           (share.head + (last ? 0 : i + 1)) * dim};
      Query* of = queries.data() + i * each;
      if constexpr (sizeof(Number) < sizeof(float))
        if (widened) {
          Cells<float> wide = floats.fill(cells);
          look(head, of, each, cell, wide, wide);
          continue;
        }
      look(head, of, each, cell, cells, coming);
    }
    cell += run.count;
  }
  for (Query& query : queries) {
    float total = head.total_of(query);
    for (int64_t i = 0; i < dim; ++i) query.out[i] /= total;
  }
}

// Rows of one token take all heads at once where there are enough of them.
inline std::vector<Share> shares_of(const Attending& to, int threads) {
  std::vector<Share> shares;
  int64_t all = to.cache.kv_heads;
  for (int64_t row = 0; row < to.batch.rows; ++row) {
    int64_t tokens = to.batch.counts[row];
    int64_t heads = tokens == 1 && to.batch.rows >= 2 * threads ? all : 1;
    for (int64_t token = 0; token < tokens; token += kTogether)
      for (int64_t head = 0; head < all; head += heads)
        shares.push_back(
            {row, token, std::min(kTogether, tokens - token), head, heads});
  }
  return shares;
}

template <int width>
void attend_width(const Attending& to, const Share& share) {
  if (to.cache.halves) return attend_share<width, uint16_t>(to, share);
  attend_share<width, float>(to, share);
}

inline void attend(Pool& pool, const Cache& cache, const Batch& batch, const float* q,
                   int64_t q_stride, int64_t heads, float* out) {
  Attending to{cache, batch, q, q_stride, heads, out};
  auto shares = shares_of(to, pool.size());
  auto run = attend_width<0>;
  if (cache.head_dim == 64) run = attend_width<64>;
  if (cache.head_dim == 128) run = attend_width<128>;
  // The longest pasts, which come last, are taken first: items count down.
  pool.run(int64_t(shares.size()), [&](int64_t item) { run(to, shares[item]); });
}
