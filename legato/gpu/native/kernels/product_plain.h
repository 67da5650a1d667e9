// A group of a tile's product in plain C++, for the compiler to vectorise.
#pragma once
#include "packing.h"

constexpr bool kVectorised = false;

inline bool takes_planes(bool, int64_t) { return false; }

// Where the numbers of a quad stand among activations.
constexpr int kPlaces[4] = {0, 2, 1, 3};

template <bool nibbles>
void group_sums(const uint8_t* block, const int16_t* x, int* sums) {
  constexpr int half = nibbles ? kQuads / 2 : kQuads;
  for (int quad = 0; quad < kQuads; ++quad) {
    const uint8_t* at = block + quad % half * kRowBytes;
    int shift = quad < half ? 0 : 4;
    for (int lane = 0; lane < kTile; ++lane)
      for (int i = 0; i < 4; ++i) {
        int byte = at[lane * 4 + i];
        int weight = nibbles ? byte >> shift & 15 : int8_t(byte);
        sums[lane] += weight * x[quad * 4 + kPlaces[i]];
      }
  }
}

// Adds a block's part to the sums of all rows: [rows][32].
template <bool nibbles>
void add_block(const Weights& w, const uint8_t* block, const Activations& x,
               int64_t group, float* sums) {
  float scale[kTile], low[kTile] = {};
  uint16_t halves[2 * kTile] = {};
  std::memcpy(halves, block + w.value_bytes(), kTile * (nibbles ? 4 : 2));
  for (int lane = 0; lane < kTile; ++lane) {
    scale[lane] = half_to_float(halves[lane]);
    if (nibbles) low[lane] = half_to_float(halves[kTile + lane]);
  }
  for (int64_t row = 0; row < x.rows; ++row, sums += kTile) {
    int64_t at = x.place(group, row);
    int whole[kTile] = {};
    group_sums<nibbles>(block, x.q + at * kGroup, whole);
    for (int lane = 0; lane < kTile; ++lane) {
      float part = float(whole[lane]) * scale[lane];
      sums[lane] += part * x.scale[at] + low[lane] * x.sum[at];
    }
  }
}
