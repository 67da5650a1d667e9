// One tile of a product with AVX2, and with VNNI where the processor has it.
#pragma once
#include <immintrin.h>

#include "packing.h"

constexpr bool kVectorised = true;

inline __m256i quad_of(const int8_t* x) {
  int four;
  std::memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

inline __m256i bytes_at(const uint8_t* q) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(q));
}

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
inline __m256i dot(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_epi32(sum, w, x);
}
#elif defined(__AVXVNNI__)
inline __m256i dot(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_avx_epi32(sum, w, x);
}
#else
#define LEGATO_MADDUBS
#endif

#ifdef LEGATO_MADDUBS
// `weight` is what the sixteen-bit sums count for, 128 of high bytes.
template <bool nibbles>
inline __m256i add_quad(__m256i sum, __m256i w, __m256i x, __m256i weight) {
  x = _mm256_maddubs_epi16(w, x);
  // Of 4 bits a whole group fits into 16 bits: 32 / 2 * 15 * 127 = 30,480.
  if constexpr (nibbles) return _mm256_add_epi16(sum, x);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(x, weight));
}

template <bool nibbles>
inline __m256i total_of(__m256i high, __m256i low) {
  if constexpr (nibbles) {
    high = _mm256_madd_epi16(high, _mm256_set1_epi16(128));
    low = _mm256_madd_epi16(low, _mm256_set1_epi16(1));
  }
  return _mm256_add_epi32(high, low);
}
#else
template <bool nibbles>
inline __m256i add_quad(__m256i sum, __m256i w, __m256i x, __m256i) {
  return dot(sum, w, x);
}

template <bool nibbles>
inline __m256i total_of(__m256i high, __m256i low) {
  return _mm256_add_epi32(_mm256_slli_epi32(high, 7), low);
}
#endif

inline __m256 add_group(__m256 total, __m256i whole, __m256 scale, __m256 low,
                        float x_scale, float x_sum) {
  __m256 part = _mm256_mul_ps(_mm256_cvtepi32_ps(whole), scale);
  total = _mm256_fmadd_ps(part, _mm256_set1_ps(x_scale), total);
  return _mm256_fmadd_ps(low, _mm256_set1_ps(x_sum), total);
}

// Eight outputs of a tile, from lane `first`: sixteen would not leave registers for the
// sums of four rows. Without the unrolling compilers keep the sums in memory.
template <bool nibbles, int rows>
void half_sums(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               int first, float (*sums)[kTile]) {
  constexpr int halves = nibbles ? 2 : 1;
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i upper = _mm256_set1_epi16(128), one = _mm256_set1_epi16(1);
  const int64_t groups = x.groups, stride = groups * 2 * kGroup;
  const uint8_t* q = w.q + tile * groups * kTile * kGroup / halves + first * 4;
  const float *scale = w.scale + tile * groups * kTile + first;
  const float* least = w.low + tile * groups * kTile + first;
  const int8_t* values = x.q + row * stride;
  __m256 totals[rows] = {};
  for (int64_t group = 0; group < groups; ++group) {
    __m256i high[rows] = {}, low[rows] = {};
#pragma GCC unroll 8
    for (int part = 0; part < kQuads; ++part) {
      __m256i quads = bytes_at(q + part / halves * 64);
      if constexpr (nibbles)
        quads = _mm256_and_si256(_mm256_srli_epi16(quads, part % 2 * 4), mask);
      const int8_t* at = values + (part / halves + part % halves * kQuads / 2) * 4;
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r, at += stride) {
        high[r] = add_quad<nibbles>(high[r], quads, quad_of(at), upper);
        low[r] = add_quad<nibbles>(low[r], quads, quad_of(at + kGroup), one);
        // Else GCC multiplies a whole group first, keeps the products in memory, and
        // adds them at the end.
        asm("" : "+x"(high[r]), "+x"(low[r]));
      }
    }
    __m256 scales = _mm256_load_ps(scale), lows = _mm256_load_ps(least);
    int64_t from = row * groups + group;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r, from += groups)
      totals[r] = add_group(totals[r], total_of<nibbles>(high[r], low[r]), scales, lows,
                            x.scale[from], x.sum[from]);
    q += kTile * kGroup / halves;
    scale += kTile;
    least += kTile;
    values += 2 * kGroup;
  }
  for (int r = 0; r < rows; ++r) _mm256_store_ps(sums[r] + first, totals[r]);
}

template <bool nibbles, int rows>
void tile_sums(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               float (*sums)[kTile]) {
  half_sums<nibbles, rows>(w, tile, x, row, 0, sums);
  half_sums<nibbles, rows>(w, tile, x, row, 8, sums);
}
