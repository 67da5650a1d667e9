// A group of a tile's product in plain C++, for the compiler to vectorise.
#pragma once
#include "activations.h"

constexpr bool kVectorised = false;

inline Form form_of(const Weights& w, int64_t) {
  return w.coarse ? Form::bytes : Form::words;
}

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

// -8 to 7: number `i` of an output's group.
inline int nibble_of(const uint8_t* block, int i, int lane) {
  int byte = block[i / 4 % (kQuads / 2) * kRowBytes + lane * 4 + i % 4];
  return (byte >> (i / 4 < kQuads / 2 ? 0 : 4) & 15) - 8;
}

// The sums of such weights, and of their products with bytes.
inline void group_sums(const uint8_t* block, const uint8_t* x, int* sums, int* weights) {
  for (int lane = 0; lane < kTile; ++lane)
    for (int i = 0; i < kGroup; ++i) {
      int weight = nibble_of(block, i, lane);
      weights[lane] += weight;
      sums[lane] += weight * x[i];
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
    const Measure& of = x.measures[at];
    int whole[kTile] = {}, weights[kTile] = {};
    if (x.form == Form::bytes) {
      group_sums(block, x.bytes(at), whole, weights);
      for (int lane = 0; lane < kTile; ++lane) {
        float least = low[lane] + 8 * scale[lane];
        float weight = scale[lane] * float(weights[lane]) + kGroup * least;
        sums[lane] += weight * of.offset + least * of.sum;
        sums[lane] += float(whole[lane]) * scale[lane] * of.scale;
      }
      if (of.spike != 0)
        for (int lane = 0; lane < kTile; ++lane) {
          float weight = float(nibble_of(block, of.spike_at, lane)) * scale[lane];
          sums[lane] += weight * of.spike;
        }
      continue;
    }
    group_sums<nibbles>(block, x.q + at * kGroup, whole);
    for (int lane = 0; lane < kTile; ++lane) {
      float part = float(whole[lane]) * scale[lane];
      sums[lane] += part * of.scale + low[lane] * of.sum;
    }
  }
}
