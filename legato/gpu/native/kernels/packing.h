// How weights are held: small integers in groups of 32 along k.
//
// 32 outputs stand together. A block is one group of theirs: [k / 4][32][4] bytes, then
// 32 scales and, of 4-bit blocks, 32 lows, as halves. Of 4-bit blocks a byte holds quad
// j in its low and quad j + 4 in its high nibble, and a weight is low + scale * (0 to
// 15); of 8-bit blocks it is scale * (-127 to 127). GGUF's Q4_0, Q4_1 and Q8_0 are held
// exactly.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "half.h"

constexpr int kGroup = 32, kTile = 32, kQuads = kGroup / 4, kRowBytes = kTile * 4;

struct Weights {
  const uint8_t* blocks;  // [outs / 32][groups]
  const float* bias;      // [outs] or null
  int64_t outs, ins, nibbles;
  int64_t coarse;  // whether activations have 8 bits instead of 15

  int64_t groups() const { return (ins + kGroup - 1) / kGroup; }
  int64_t tiles() const { return (outs + kTile - 1) / kTile; }
  int64_t value_bytes() const { return kTile * kGroup / (nibbles ? 2 : 1); }
  int64_t block_bytes() const { return value_bytes() + kTile * (nibbles ? 4 : 2); }
  const uint8_t* block(int64_t tile, int64_t group) const {
    return blocks + (tile * groups() + group) * block_bytes();
  }
};

// A group of one output: whole numbers and what they count for.
struct Group {
  int values[kGroup] = {};
  uint16_t scale = 0, low = 0;  // halves

  float value(int i) const {
    return half_to_float(scale) * float(values[i]) + half_to_float(low);
  }
};

// Splits floats into 16 levels between their least and most; returns the largest error,
// in levels.
inline float split_nibbles(const float* w, int size, Group& group) {
  auto [least, most] = std::minmax_element(w, w + size);
  group.low = float_to_half(*least);
  group.scale = float_to_half((*most - *least) / 15);
  float low = half_to_float(group.low), scale = half_to_float(group.scale);
  float inverse = scale > 0 ? 1 / scale : 0, worst = 0;
  for (int i = 0; i < size; ++i) {
    float exact = (w[i] - low) * inverse;
    group.values[i] = int(std::min(std::max(std::nearbyint(exact), 0.0f), 15.0f));
    worst = std::max(worst, std::fabs(exact - float(group.values[i])));
    if (scale == 0 && w[i] != low) worst = 1;
  }
  return worst;
}

inline void split_bytes(const float* w, int size, Group& group) {
  float most = 0;
  for (int i = 0; i < size; ++i) most = std::max(most, std::fabs(w[i]));
  group.scale = float_to_half(most / 127);
  float scale = half_to_float(group.scale), inverse = scale > 0 ? 1 / scale : 0;
  for (int i = 0; i < size; ++i) {
    float rounded = std::nearbyint(w[i] * inverse);
    group.values[i] = int(std::min(std::max(rounded, -127.0f), 127.0f));
  }
}

// Whether 16 levels hold every group of a matrix [outs, ins] exactly.
inline bool fits_nibbles(const float* w, int64_t outs, int64_t ins) {
  for (int64_t out = 0; out < outs; ++out)
    for (int64_t k = 0; k < ins; k += kGroup) {
      Group group;
      int size = int(std::min<int64_t>(kGroup, ins - k));
      if (!(split_nibbles(w + out * ins + k, size, group) <= 2e-3f)) return false;
    }
  return true;
}

// Puts a group into zeroed blocks.
inline void put_group(const Weights& to, uint8_t* blocks, int64_t out, int64_t index,
                      const Group& group) {
  int64_t tile = out / kTile, lane = out % kTile;
  uint8_t* block = blocks + (tile * to.groups() + index) * to.block_bytes();
  for (int i = 0; i < kGroup; ++i) {
    int quad = i / 4, half = to.nibbles ? kQuads / 2 : kQuads;
    int byte = to.nibbles ? group.values[i] << (quad < half ? 0 : 4)
                          : group.values[i];
    block[quad % half * kRowBytes + lane * 4 + i % 4] |= uint8_t(byte);
  }
  uint8_t* numbers = block + to.value_bytes() + lane * 2;
  std::memcpy(numbers, &group.scale, 2);
  if (to.nibbles) std::memcpy(numbers + kTile * 2, &group.low, 2);
}

// Reads the group back: what is held, not what was given.
inline Group group_of(const Weights& w, int64_t out, int64_t index) {
  const uint8_t* block = w.block(out / kTile, index);
  int64_t lane = out % kTile;
  Group group;
  for (int i = 0; i < kGroup; ++i) {
    int quad = i / 4, half = w.nibbles ? kQuads / 2 : kQuads;
    int byte = block[quad % half * kRowBytes + lane * 4 + i % 4];
    if (w.nibbles)
      group.values[i] = byte >> (quad < half ? 0 : 4) & 15;
    else
      group.values[i] = int8_t(byte);
  }
  const uint8_t* numbers = block + w.value_bytes() + lane * 2;
  std::memcpy(&group.scale, numbers, 2);
  if (w.nibbles) std::memcpy(&group.low, numbers + kTile * 2, 2);
  return group;
}

// Packs a matrix [outs, ins] of floats into zeroed blocks.
inline void pack(const float* w, const Weights& to, uint8_t* blocks) {
  for (int64_t out = 0; out < to.outs; ++out)
    for (int64_t index = 0; index < to.groups(); ++index) {
      Group group;
      const float* from = w + out * to.ins + index * kGroup;
      int size = int(std::min<int64_t>(kGroup, to.ins - index * kGroup));
      if (to.nibbles)
        split_nibbles(from, size, group);
      else
        split_bytes(from, size, group);
      put_group(to, blocks, out, index, group);
    }
}

// Row `out` of a matrix, as floats.
inline void unpack(const Weights& w, int64_t out, float* to) {
  for (int64_t index = 0; index < w.groups(); ++index) {
    Group group = group_of(w, out, index);
    int64_t size = std::min<int64_t>(kGroup, w.ins - index * kGroup);
    for (int64_t i = 0; i < size; ++i) to[index * kGroup + i] = group.value(int(i));
  }
}
