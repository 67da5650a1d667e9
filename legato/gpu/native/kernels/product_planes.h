// Few rows: weights of 4 bits as bytes, activations as two planes of bytes.
#pragma once
#include "scales_x86.h"

// Beyond, making words of the weights once for all rows costs less than two planes.
constexpr int kPlanesRows = 9;

// Eight outputs of a quad: those of low nibbles come before those of high ones.
inline __m256i quad_at(const uint8_t* block, int part) {
  __m256i both = bytes_at(block + part / 2 * kRowBytes);
  if (part % 2) both = _mm256_srli_epi16(both, 4);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

inline __m256i add_quad(__m256i sum, __m256i w, __m256i x) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return _mm256_dpbusd_epi32(sum, w, x);
#elif defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, w, x);
#else
  // A whole group fits into 16 bits: 32 / 2 * 15 * 127 = 30,480.
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
#endif
}

// The whole sum of a group.
inline __m256i total_of(__m256i high, __m256i low) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__)
  return _mm256_add_epi32(_mm256_slli_epi32(high, 7), low);
#else
  high = _mm256_madd_epi16(high, _mm256_set1_epi16(128));
  return _mm256_add_epi32(high, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
#endif
}

// Sixteen outputs, from side `first` on. Three rows of two planes have twelve sums of
// them; two weights, a value and a product fill the sixteen registers.
template <int rows>
inline void add_half(const uint8_t* block, const Scales& scales, const Activations& x,
                     int64_t at, int first, float* sums) {
  const int8_t* values = x.planes(at);
  block += first * 32;
  __m256i whole[rows][2][2] = {};
#pragma GCC unroll 8
  for (int part = 0; part < kQuads; ++part) {
    __m256i quads[2] = {quad_at(block, part), quad_at(block + 32, part)};
    const int8_t* four = values + (part / 2 + part % 2 * kQuads / 2) * 4;
#pragma GCC unroll 3
    for (int r = 0; r < rows; ++r, four += 2 * kGroup)
#pragma GCC unroll 2
      for (int plane = 0; plane < 2; ++plane) {
        __m256i value = four_of(four + plane * kGroup);
#pragma GCC unroll 2
        for (int side = 0; side < 2; ++side) {
          auto& sum = whole[r][side][plane];
          sum = add_quad(sum, quads[side], value);
          // Else GCC multiplies a whole group first, keeps the products in memory, and
          // adds them at the end.
          asm("" : "+x"(sum));
        }
      }
  }
#pragma GCC unroll 3
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int side = 0; side < 2; ++side)
      scales.add<true>(total_of(whole[r][side][0], whole[r][side][1]), first + side,
                       _mm256_set1_ps(x.measures[at + r].scale),
                       _mm256_set1_ps(x.measures[at + r].sum),
                       sums + r * kTile);
}

inline void add_planes(const uint8_t* block, const Scales& scales, const Activations& x,
                       int64_t group, float* sums) {
  for (int first = 0; first < kSides; first += 2) {
    int64_t row = 0, at = x.place(group, 0);
    for (; row + 3 <= x.rows; row += 3)
      add_half<3>(block, scales, x, at + row, first, sums + row * kTile);
    if (x.rows - row == 2)
      add_half<2>(block, scales, x, at + row, first, sums + row * kTile);
    if (x.rows - row == 1)
      add_half<1>(block, scales, x, at + row, first, sums + row * kTile);
  }
}
