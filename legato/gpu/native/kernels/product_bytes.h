// Weights of 4 bits as signed bytes, made once for all rows; activations of 8 bits.
//
// Half the instructions of words. With weight = low + scale * (-8 to 7) and activation
// = offset + step * (0 to 255) a whole group fits into 16 bits: 32 / 2 * 8 * 255 =
// 32,640. The sum of a group's products is scale * step * whole numbers + low * (the sum
// of step * numbers) + offset * (the sum of the weights).
#pragma once
#include "scales_x86.h"

constexpr int kBytesRows = 3;

inline __m256i add_bytes(__m256i sum, __m256i x, __m256i w) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return _mm256_dpbusd_epi32(sum, x, w);
#elif defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, x, w);
#else
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, w));
#endif
}

// Of eight outputs, the whole sums of a group.
inline __m256i wholes_of(__m256i sum) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__)
  return sum;
#else
  return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
#endif
}

struct SignedBlock {
  __m256i held[kQuads][kSides];
  Scales scales;
  alignas(32) float weight[kTile];  // the sum of a group's

  SignedBlock(const uint8_t* block, int64_t value_bytes)
      : scales(block + value_bytes, true) {
    const __m256i ones = _mm256_set1_epi8(1);
#pragma GCC unroll 4
    for (int side = 0; side < kSides; ++side) {
      __m256i sum{};
#pragma GCC unroll 4
      for (int quad = 0; quad < kQuads / 2; ++quad) {
        __m256i both = bytes_at(block + quad * kRowBytes + side * 32);
        __m256i high = _mm256_srli_epi16(both, 4);
        sum = add_bytes(sum, ones, held[quad][side] = centred(both));
        sum = add_bytes(sum, ones, held[quad + kQuads / 2][side] = centred(high));
      }
      finish(side * 8, _mm256_cvtepi32_ps(wholes_of(sum)));
    }
  }

 private:
  static __m256i centred(__m256i nibbles) {
    nibbles = _mm256_and_si256(nibbles, _mm256_set1_epi8(15));
    return _mm256_sub_epi8(nibbles, _mm256_set1_epi8(8));
  }

  void finish(int first, __m256 sum) {
    __m256 scale = _mm256_load_ps(scales.scale + first);
    __m256 low = _mm256_load_ps(scales.low + first);
    low = _mm256_fmadd_ps(scale, _mm256_set1_ps(8), low);
    _mm256_store_ps(scales.low + first, low);
    low = _mm256_mul_ps(low, _mm256_set1_ps(kGroup));
    _mm256_store_ps(weight + first, _mm256_fmadd_ps(scale, sum, low));
  }
};

template <int rows>
inline void add_byte_rows(const SignedBlock& w, const Activations& x, int64_t at,
                          float* sums) {
  const uint8_t* values = x.bytes(at);
  __m256i sum[rows][kSides] = {};
#pragma GCC unroll 8
  for (int quad = 0; quad < kQuads; ++quad)
#pragma GCC unroll 3
    for (int r = 0; r < rows; ++r) {
      __m256i four = four_of(values + r * kGroup + quad * 4);
#pragma GCC unroll 4
      for (int side = 0; side < kSides; ++side) {
        sum[r][side] = add_bytes(sum[r][side], four, w.held[quad][side]);
        // As in products of words.
        asm("" : "+x"(sum[r][side]));
      }
    }
#pragma GCC unroll 3
  for (int r = 0; r < rows; ++r, sums += kTile) {
    const Measure& of = x.measures[at + r];
    __m256 step = _mm256_set1_ps(of.scale), total = _mm256_set1_ps(of.sum);
    __m256 offset = _mm256_set1_ps(of.offset);
#pragma GCC unroll 4
    for (int side = 0; side < kSides; ++side) {
      int first = side * 8;
      __m256 part = _mm256_cvtepi32_ps(wholes_of(sum[r][side]));
      part = _mm256_mul_ps(part, _mm256_load_ps(w.scales.scale + first));
      __m256 all = _mm256_load_ps(w.weight + first);
      all = _mm256_fmadd_ps(all, offset, _mm256_load_ps(sums + first));
      all = _mm256_fmadd_ps(part, step, all);
      all = _mm256_fmadd_ps(_mm256_load_ps(w.scales.low + first), total, all);
      _mm256_store_ps(sums + first, all);
    }
  }
}

// A spike's products.
inline void add_spike(const SignedBlock& w, const Measure& of, float* sums) {
  __m128i up = _mm_cvtsi32_si128(24 - of.spike_at % 4 * 8);
  __m256 spike = _mm256_set1_ps(of.spike);
#pragma GCC unroll 4
  for (int side = 0; side < kSides; ++side) {
    __m256i four = _mm256_sll_epi32(w.held[of.spike_at / 4][side], up);
    __m256 weight = _mm256_cvtepi32_ps(_mm256_srai_epi32(four, 24));
    weight = _mm256_mul_ps(weight, _mm256_load_ps(w.scales.scale + side * 8));
    __m256 sum = _mm256_load_ps(sums + side * 8);
    _mm256_store_ps(sums + side * 8, _mm256_fmadd_ps(weight, spike, sum));
  }
}

// Not inline: the loop over rows beside it would be a quarter slower.
[[gnu::noinline]] inline void add_spikes(const SignedBlock& w, const Activations& x,
                                         int64_t group, float* sums) {
  x.each_spike(group, [&](int64_t row, const Measure& of) {
    add_spike(w, of, sums + row * kTile);
  });
}

inline void add_signed(const uint8_t* block, int64_t value_bytes, const Activations& x,
                       int64_t group, float* sums) {
  SignedBlock w(block, value_bytes);
  int64_t row = 0, at = x.place(group, 0);
  for (; row + kBytesRows <= x.rows; row += kBytesRows)
    add_byte_rows<kBytesRows>(w, x, at + row, sums + row * kTile);
  if (x.rows - row == 2) add_byte_rows<2>(w, x, at + row, sums + row * kTile);
  if (x.rows - row == 1) add_byte_rows<1>(w, x, at + row, sums + row * kTile);
  add_spikes(w, x, group, sums);
}
