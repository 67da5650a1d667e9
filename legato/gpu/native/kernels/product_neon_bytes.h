// Weights of 4 bits and activations of 8, as in product_bytes.h.
#pragma once
#include "quads_neon.h"

// Eight outputs' weights of -8 to 7, and the sum of a group's.
struct SignedQuads {
  int8x16_t quads[kQuads][2];
  int32x4_t whole[2];
  float32x4_t least[2], weight[2];

  SignedQuads(const uint8_t* block, const NeonScales& scales, int first) {
    for (int part = 0; part < 2; ++part) {
      whole[part] = vdupq_n_s32(0);
      for (int quad = 0; quad < kQuads; ++quad) {
        int8x16_t nibbles = quad_at<true>(block, quad, first * 4 + part * 16);
        quads[quad][part] = vsubq_s8(nibbles, vdupq_n_s8(8));
        whole[part] = vdotq_s32(whole[part], quads[quad][part], vdupq_n_s8(1));
      }
      least[part] = vfmaq_n_f32(scales.low[part], scales.scale[part], 8);
      weight[part] = vfmaq_f32(vmulq_n_f32(least[part], kGroup), scales.scale[part],
                               vcvtq_f32_s32(whole[part]));
    }
  }
};

template <int rows>
inline void add_byte_rows(const SignedQuads& w, const NeonScales& scales,
                          const Activations& x, int64_t at, float* sums) {
  int32x4_t sum[rows][2] = {};
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    int8x16_t values[rows];
    // The instruction wants both signed: less 128, which the weights' sum makes good.
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
      values[r] = vreinterpretq_s8_u8(
          veorq_u8(vld1q_u8(x.bytes(at + r) + half * 16), vdupq_n_u8(128)));
    auto add = [&]<int lane>() {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
        for (int part = 0; part < 2; ++part)
          sum[r][part] =
              add_quad<lane>(sum[r][part], w.quads[half * 4 + lane][part], values[r]);
    };
    add.template operator()<0>();
    add.template operator()<1>();
    add.template operator()<2>();
    add.template operator()<3>();
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int part = 0; part < 2; ++part) {
      float* to = sums + r * kTile + part * 4;
      float32x4_t total = vfmaq_n_f32(vld1q_f32(to), w.weight[part], x.measures[at + r].offset);
      int32x4_t whole = vaddq_s32(sum[r][part], vshlq_n_s32(w.whole[part], 7));
      float32x4_t value = vmulq_f32(vcvtq_f32_s32(whole), scales.scale[part]);
      total = vfmaq_n_f32(total, value, x.measures[at + r].scale);
      vst1q_f32(to, vfmaq_n_f32(total, w.least[part], x.measures[at + r].sum));
    }
}

// A spike's products.
inline void add_spike(const SignedQuads& w, const NeonScales& scales, const Measure& of,
                      float* sums) {
  int32x4_t up = vdupq_n_s32(24 - of.spike_at % 4 * 8);
  for (int part = 0; part < 2; ++part) {
    int32x4_t four = vreinterpretq_s32_s8(w.quads[of.spike_at / 4][part]);
    four = vshrq_n_s32(vshlq_s32(four, up), 24);
    float32x4_t weight = vmulq_f32(vcvtq_f32_s32(four), scales.scale[part]);
    float* to = sums + part * 4;
    vst1q_f32(to, vfmaq_n_f32(vld1q_f32(to), weight, of.spike));
  }
}

inline void add_signed(const uint8_t* block, const NeonScales& scales,
                       const Activations& x, int64_t group, int first, float* sums) {
  SignedQuads w(block, scales, first);
  int64_t row = 0, at = x.place(group, 0);
  sums += first;
  x.each_spike(group, [&](int64_t row, const Measure& of) {
    add_spike(w, scales, of, sums + row * kTile);
  });
  for (; row + kNeonRows <= x.rows; row += kNeonRows)
    add_byte_rows<kNeonRows>(w, scales, x, at + row, sums + row * kTile);
  sums += row * kTile;
  if (x.rows - row == 3) add_byte_rows<3>(w, scales, x, at + row, sums);
  if (x.rows - row == 2) add_byte_rows<2>(w, scales, x, at + row, sums);
  if (x.rows - row == 1) add_byte_rows<1>(w, scales, x, at + row, sums);
}
