// Weights of a block as ARM's dot products take them, and what they count for.
#pragma once
#include <arm_neon.h>

#include "activations.h"

constexpr int kNeonRows = 4, kSideOuts = 8;

// Four outputs of a quad.
template <bool nibbles>
inline int8x16_t quad_at(const uint8_t* block, int quad, int shift) {
  if constexpr (!nibbles)
    return vreinterpretq_s8_u8(vld1q_u8(block + quad * kRowBytes + shift));
  uint8x16_t both = vld1q_u8(block + quad % (kQuads / 2) * kRowBytes + shift);
  bool is_low = quad < kQuads / 2;
  both = is_low ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4);
  return vreinterpretq_s8_u8(both);
}

// The lane of x is a constant of the instruction.
template <int lane>
inline int32x4_t add_quad(int32x4_t sum, int8x16_t w, int8x16_t x) {
  return vdotq_laneq_s32(sum, w, x, lane);
}

struct NeonScales {
  float32x4_t scale[2], low[2];  // of eight outputs

  NeonScales(const uint8_t* from, int first, bool has_low) {
    for (int part = 0; part < 2; ++part) {
      scale[part] = floats_at(from + (first + part * 4) * 2);
      low[part] = has_low ? floats_at(from + (kTile + first + part * 4) * 2)
                          : vdupq_n_f32(0);
    }
  }

  static float32x4_t floats_at(const uint8_t* halves) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves)));
  }
};
