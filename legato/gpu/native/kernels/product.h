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

// Activations of rows that stay in the first cache while tiles pass, and tiles that stay
// in the second while rows pass; in bytes.
constexpr int64_t kRowsFit = 16 << 10, kTilesFit = 192 << 10;

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

// The rows up to `end`, as many at a time as share a weight; then fewer.
template <bool nibbles, int rows = kRows>
void tile_rows(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               int64_t end, const Output& out) {
  for (; row + rows <= end; row += rows)
    tile_product<nibbles, rows>(w, tile, x, row, out);
  if constexpr (rows > 1)
    if (row < end) tile_rows<nibbles, rows - 1>(w, tile, x, row, end, out);
}

template <bool nibbles>
void tiles_product(const Weights& w, int64_t tile, int64_t last, const Activations& x,
                   int64_t rows, const Output& out) {
  int64_t fit = std::max<int64_t>(1, kTilesFit / (w.groups() * w.block_bytes()));
  int64_t together = kRowsFit / x.row_bytes() / kRows * kRows;
  together = std::max<int64_t>(kRows, together);
  for (; tile < last; tile += fit)
    for (int64_t row = 0; row < rows; row += together) {
      int64_t end = std::min(rows, row + together);
      for (int64_t at = tile; at < std::min(last, tile + fit); ++at)
        tile_rows<nibbles>(w, at, x, row, end, out);
    }
}

inline void product(Pool& pool, const Weights& w, const Activations& x, int64_t rows,
                    const Output& out) {
  int64_t tiles = w.tiles();
  // Four items a thread: a thread that lost its core leaves the rest to others.
  int64_t items = std::min<int64_t>(tiles, pool.size() > 1 ? pool.size() * 4 : 1);
  auto run = w.nibbles ? tiles_product<true> : tiles_product<false>;
  pool.run(items, [&](int64_t item) {
    run(w, tiles * item / items, tiles * (item + 1) / items, x, rows, out);
  });
}
