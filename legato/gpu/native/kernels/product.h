// Products of packed weights with quantized activations.
//
// A row's numbers are summed in one order, whatever rows come with it and whichever
// thread takes it: answers don't depend on the batch.
#pragma once
#include <vector>

#include "packing.h"
#include "threads.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "product_x86.h"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "product_neon.h"
#else
#include "product_plain.h"
#endif

// Of a row, the outputs of a tile.
struct Sums {
  alignas(64) float of[kTile];
};

struct Output {
  float* to;  // [rows][stride]
  int64_t stride;
  bool add;  // to what is there
};

inline void store_tile(const Weights& w, int64_t tile, const float* sums, float* to,
                       bool add) {
  int64_t first = tile * kTile, count = std::min<int64_t>(kTile, w.outs - first);
  for (int64_t i = 0; i < count; ++i) {
    float sum = sums[i] + (w.bias ? w.bias[first + i] : 0);
    to[first + i] = add ? to[first + i] + sum : sum;
  }
}

template <bool nibbles>
void tiles_product(const Weights& w, int64_t tile, int64_t last, const Activations& x,
                   const Output& out) {
  thread_local std::vector<Sums> sums;
  sums.resize(size_t(x.rows));
  for (; tile < last; ++tile) {
    std::memset(sums.data(), 0, sizeof(Sums) * size_t(x.rows));
    for (int64_t group = 0; group < x.groups; ++group)
      add_block<nibbles>(w, w.block(tile, group), x, group, sums.data()->of);
    for (int64_t row = 0; row < x.rows; ++row)
      store_tile(w, tile, sums[size_t(row)].of, out.to + row * out.stride, out.add);
  }
}

inline void product(Pool& pool, const Weights& w, const Activations& x,
                    const Output& out) {
  if (!x.rows) return;
  int64_t tiles = w.tiles();
  // Four items a thread: a thread that lost its core leaves the rest to others.
  int64_t items = std::min<int64_t>(tiles, pool.size() > 1 ? pool.size() * 4 : 1);
  auto run = w.nibbles ? tiles_product<true> : tiles_product<false>;
  pool.run(items, [&](int64_t item) {
    run(w, tiles * item / items, tiles * (item + 1) / items, x, out);
  });
}
