// How weights and activations are held: small integers in groups of 32 along k.
//
// A weight is low + scale * q, with q from 0 to 120, or from 0 to 15 where that holds a
// matrix exactly: blocks of GGUF's Q4_1 are such. 120 is a multiple of 15, and the most
// that maddubs multiplies by signed bytes without saturating.
// Sixteen outputs stand together: [outs / 16][k / 4][16][4] bytes, the order in which
// maddubs, VNNI and AMX sum four products to one 32-bit lane. Of 4-bit groups a byte
// holds quad j in its low and quad j + 4 in its high nibble.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

constexpr int kGroup = 32, kTile = 16, kQuads = kGroup / 4;

struct Weights {
  const uint8_t* q;    // packed
  const float* scale;  // [outs / 16][groups][16]
  const float* low;    // the same
  const float* bias;   // [outs] or null
  int64_t outs, ins, nibbles;

  int64_t groups() const { return (ins + kGroup - 1) / kGroup; }
  int64_t tiles() const { return (outs + kTile - 1) / kTile; }
  int64_t group_bytes() const { return kTile * kGroup / (nibbles ? 2 : 1); }
};

// Rows of activations: value = scale * (128 * high + low), 15 bits in two bytes.
// With 8 bits alone, SmolLM2's mean KL divergence from float32 is 3 to 4e-3: some of its
// channels are far larger than those beside them.
struct Activations {
  int8_t* q;     // [rows][groups][2][32]: high, then low
  float* scale;  // [rows][groups]
  float* sum;    // [rows][groups]: of the 32 values
  int64_t groups;

  void quantize(int64_t row, const float* x, int64_t count) const {
    int64_t whole = count / kGroup, at = row * groups;
    for (int64_t group = 0; group < whole; ++group)
      quantize_group(at + group, x + group * kGroup);
    if (whole == groups) return;
    float part[kGroup] = {};
    std::copy(x + whole * kGroup, x + count, part);
    quantize_group(at + whole, part);
  }

 private:
  static constexpr int kMost = 127 * 128;

  void quantize_group(int64_t at, const float* x) const {
    float peak = peak_of(x), inverse = peak > 0 ? kMost / peak : 0;
    int8_t *high = q + at * 2 * kGroup, *low = high + kGroup;
    int total = 0;
    for (int i = 0; i < kGroup; ++i) {
      int value = int(std::nearbyint(x[i] * inverse)), upper = (value + 64) >> 7;
      high[i] = int8_t(upper);
      low[i] = int8_t(value - upper * 128);
      total += value;
    }
    scale[at] = peak / kMost;
    sum[at] = scale[at] * float(total);
  }

  // Compared as integers, which compilers vectorise, and where NaN is above all:
  // the integers can't carry one on, but the scale does.
  static float peak_of(const float* x) {
    int32_t most = 0;
    for (int i = 0; i < kGroup; ++i) {
      int32_t bits;
      std::memcpy(&bits, x + i, 4);
      most = std::max(most, bits & 0x7fffffff);
    }
    float peak;
    std::memcpy(&peak, &most, 4);
    return peak;
  }
};

// Splits a group into q, scale and low; returns the largest error in scales.
inline float split_group(const float* w, int size, int levels, uint8_t* q, float* scale,
                         float* low) {
  auto [least, most] = std::minmax_element(w, w + size);
  *low = *least;
  *scale = (*most - *least) / float(levels);
  float inverse = *scale > 0 ? 1 / *scale : 0, worst = 0;
  for (int i = 0; i < size; ++i) {
    float exact = (w[i] - *low) * inverse, rounded = std::nearbyint(exact);
    worst = std::max(worst, std::fabs(exact - rounded));
    q[i] = uint8_t(rounded);
  }
  return worst;
}

// Whether 16 levels hold every group of a matrix [outs, ins] exactly.
inline bool fits_nibbles(const float* w, int64_t outs, int64_t ins) {
  for (int64_t out = 0; out < outs; ++out)
    for (int64_t k = 0; k < ins; k += kGroup) {
      uint8_t q[kGroup];
      float scale, low;
      int size = int(std::min<int64_t>(kGroup, ins - k));
      if (split_group(w + out * ins + k, size, 15, q, &scale, &low) > 2e-3f)
        return false;
    }
  return true;
}

// Packs a matrix [outs, ins] into zeroed buffers.
inline void pack(const float* w, const Weights& to, uint8_t* bytes, float* scales,
                 float* lows) {
  int levels = to.nibbles ? 15 : 120;
  for (int64_t out = 0; out < to.outs; ++out)
    for (int64_t group = 0; group < to.groups(); ++group) {
      uint8_t q[kGroup] = {};
      int size = int(std::min<int64_t>(kGroup, to.ins - group * kGroup));
      int64_t tile = out / kTile * to.groups() + group, lane = out % kTile;
      split_group(w + out * to.ins + group * kGroup, size, levels, q,
                  scales + tile * kTile + lane, lows + tile * kTile + lane);
      uint8_t* block = bytes + tile * to.group_bytes() + lane * 4;
      for (int i = 0; i < kGroup; ++i) {
        int quad = i / 4, half = to.nibbles ? kQuads / 2 : kQuads;
        block[quad % half * 64 + i % 4] |= uint8_t(q[i] << (quad < half ? 0 : 4));
      }
    }
}
