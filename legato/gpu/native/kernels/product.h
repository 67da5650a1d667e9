// Products of packed weights with quantized activations.
//
// A row's numbers are summed in one order, whatever rows come with it and whichever
// thread takes it: answers don't depend on the batch.
#pragma once
#include "packing.h"
#include "threads.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "product_x86.h"
#else
#include "product_plain.h"
#endif

constexpr int64_t kRowBlock = 60;  // rows that share a tile in the cache

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

template <bool nibbles, int rows>
void tile_product(const Weights& w, int64_t tile, const Activations& x, int64_t row,
                  const Output& out) {
  alignas(64) float sums[rows][kTile];
  tile_sums<nibbles, rows>(w, tile, x, row, sums);
  for (int r = 0; r < rows; ++r)
    store_tile(w, tile, sums[r], out.to + (row + r) * out.stride, out.add);
}

template <bool nibbles>
void tile_rows(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               int64_t end, const Output& out) {
  for (; row + kRows <= end; row += kRows)
    tile_product<nibbles, kRows>(w, tile, x, row, out);
  switch (end - row) {
    case 3:
      return tile_product<nibbles, 3>(w, tile, x, row, out);
    case 2:
      return tile_product<nibbles, 2>(w, tile, x, row, out);
    case 1:
      return tile_product<nibbles, 1>(w, tile, x, row, out);
  }
}

inline void product(Pool& pool, const Weights& w, const Activations& x, int64_t rows,
                    const Output& out) {
  int64_t tiles = w.tiles();
  // Four items a thread: a thread that lost its core leaves the rest to others.
  int64_t items = std::min<int64_t>(tiles, pool.size() > 1 ? pool.size() * 4 : 1);
  pool.run(items, [&](int64_t item) {
    int64_t last = tiles * (item + 1) / items;
    for (int64_t row = 0; row < rows; row += kRowBlock) {
      int64_t end = std::min(rows, row + kRowBlock);
      for (int64_t tile = tiles * item / items; tile < last; ++tile)
        w.nibbles ? tile_rows<true>(w, tile, x, row, end, out)
                  : tile_rows<false>(w, tile, x, row, end, out);
    }
  });
}
