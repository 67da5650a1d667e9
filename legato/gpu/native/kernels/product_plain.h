// One tile of a product in plain C++, for the compiler to vectorise.
#pragma once
#include "packing.h"

constexpr bool kVectorised = false;
// Rows that share a weight in registers.
constexpr int kRows = 4;

template <bool nibbles>
void group_sums(const uint8_t* q, const int8_t* x, int* sums) {
  int value[kGroup];
  for (int i = 0; i < kGroup; ++i) value[i] = x[i] * 128 + x[kGroup + i];
  constexpr int half = nibbles ? kQuads / 2 : kQuads;
  for (int quad = 0; quad < kQuads; ++quad) {
    const uint8_t* at = q + quad % half * 64;
    int shift = quad < half ? 0 : 4;
    for (int lane = 0; lane < kTile; ++lane)
      for (int i = 0; i < 4; ++i) {
        int byte = at[lane * 4 + i];
        int weight = nibbles ? byte >> shift & 15 : int8_t(byte - kOffset);
        sums[lane] += weight * value[quad * 4 + i];
      }
  }
}

template <bool nibbles, int rows>
void tile_sums(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               float (*sums)[kTile]) {
  std::memset(sums, 0, sizeof(float) * rows * kTile);
  for (int64_t group = 0; group < x.groups; ++group) {
    const uint8_t* block = w.block(tile, group);
    float scale[kTile], low[kTile] = {};
    uint16_t halves[2 * kTile] = {};
    std::memcpy(halves, block + w.value_bytes(), kTile * (nibbles ? 4 : 2));
    for (int lane = 0; lane < kTile; ++lane) {
      scale[lane] = half_to_float(halves[lane]);
      if (nibbles) low[lane] = half_to_float(halves[kTile + lane]);
    }
    for (int r = 0; r < rows; ++r) {
      int64_t from = (row + r) * x.groups + group;
      int whole[kTile] = {};
      group_sums<nibbles>(block, x.q + from * 2 * kGroup, whole);
      for (int lane = 0; lane < kTile; ++lane) {
        float part = float(whole[lane]) * scale[lane];
        sums[r][lane] += part * x.scale[from] + low[lane] * x.sum[from];
      }
    }
  }
}
