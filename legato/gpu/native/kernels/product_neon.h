// A block's product with the dot products of ARM processors (since 2018: Apple's, Graviton
// 2): four bytes of weights by four of activations, for four outputs an instruction.
//
// Activations are two planes of bytes, for any number of rows. Eight outputs of four rows
// have sixteen sums; their activations and two weights fit into the other registers.
#pragma once
#include "product_neon_bytes.h"

constexpr bool kVectorised = true;

inline Form form_of(const Weights& w, int64_t) {
  return w.coarse ? Form::bytes : Form::planes;
}

template <bool nibbles, int rows>
inline void add_eight(const uint8_t* block, const NeonScales& scales,
                      const Activations& x, int64_t at, int first, float* sums) {
  const int8_t* values = x.planes(at);
  int32x4_t whole[rows][2][2] = {};  // by row, plane and four outputs
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    int8x16_t planes[rows][2];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int plane = 0; plane < 2; ++plane)
        planes[r][plane] =
            vld1q_s8(values + (r * 2 + plane) * kGroup + half * (kGroup / 2));
    auto add = [&]<int lane>() {
      int quad = half * 4 + lane;
      int8x16_t w[2] = {quad_at<nibbles>(block, quad, first * 4),
                        quad_at<nibbles>(block, quad, first * 4 + 16)};
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
        for (int plane = 0; plane < 2; ++plane)
#pragma GCC unroll 2
          for (int part = 0; part < 2; ++part)
            whole[r][plane][part] =
                add_quad<lane>(whole[r][plane][part], w[part], planes[r][plane]);
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
      int32x4_t total = vaddq_s32(vshlq_n_s32(whole[r][0][part], 7), whole[r][1][part]);
      float* to = sums + r * kTile + first + part * 4;
      float32x4_t value = vmulq_f32(vcvtq_f32_s32(total), scales.scale[part]);
      float32x4_t sum = vfmaq_n_f32(vld1q_f32(to), value, x.measures[at + r].scale);
      if constexpr (nibbles) sum = vfmaq_n_f32(sum, scales.low[part], x.measures[at + r].sum);
      vst1q_f32(to, sum);
    }
}

// Adds a block's part to the sums of all rows: [rows][32].
template <bool nibbles>
void add_block(const Weights& w, const uint8_t* block, const Activations& x,
               int64_t group, float* sums) {
  __builtin_prefetch(block + 4096);
  for (int first = 0; first < kTile; first += kSideOuts) {
    NeonScales scales(block + w.value_bytes(), first, nibbles);
    if (nibbles && x.form == Form::bytes) {
      add_signed(block, scales, x, group, first, sums);
      continue;
    }
    int64_t row = 0, at = x.place(group, 0);
    for (; row + kNeonRows <= x.rows; row += kNeonRows)
      add_eight<nibbles, kNeonRows>(block, scales, x, at + row, first,
                                    sums + row * kTile);
    float* rest = sums + row * kTile;
    if (x.rows - row == 3)
      add_eight<nibbles, 3>(block, scales, x, at + row, first, rest);
    if (x.rows - row == 2)
      add_eight<nibbles, 2>(block, scales, x, at + row, first, rest);
    if (x.rows - row == 1)
      add_eight<nibbles, 1>(block, scales, x, at + row, first, rest);
  }
}
