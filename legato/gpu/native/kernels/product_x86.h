// One tile of a product with AVX2, and with VNNI where the processor has it.
#pragma once
#include <immintrin.h>

#include "packing.h"

inline __m256i quad_of(const int8_t* x) {
  int four;
  std::memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

inline __m256i bytes_at(const uint8_t* q) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(q));
}

// Sums of products with the high and the low bytes of activations.
struct Sums {
  __m256i high, low;
};

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
template <bool nibbles>
inline void add_quad(Sums& sums, __m256i w, __m256i high, __m256i low) {
  high = _mm256_maddubs_epi16(w, high);
  low = _mm256_maddubs_epi16(w, low);
  if constexpr (nibbles) {
    // A whole group fits into 16 bits: 32 / 2 * 15 * 127 = 30,480.
    sums.high = _mm256_add_epi16(sums.high, high);
    sums.low = _mm256_add_epi16(sums.low, low);
  } else {
    high = _mm256_madd_epi16(high, _mm256_set1_epi16(128));
    low = _mm256_madd_epi16(low, _mm256_set1_epi16(1));
    sums.high = _mm256_add_epi32(sums.high, high);
    sums.low = _mm256_add_epi32(sums.low, low);
  }
}

template <bool nibbles>
inline __m256i total_of(Sums sums) {
  if constexpr (nibbles) {
    sums.high = _mm256_madd_epi16(sums.high, _mm256_set1_epi16(128));
    sums.low = _mm256_madd_epi16(sums.low, _mm256_set1_epi16(1));
  }
  return _mm256_add_epi32(sums.high, sums.low);
}
#else
template <bool nibbles>
inline void add_quad(Sums& sums, __m256i w, __m256i high, __m256i low) {
  sums = {dot(sums.high, w, high), dot(sums.low, w, low)};
}

template <bool nibbles>
inline __m256i total_of(Sums sums) {
  return _mm256_add_epi32(_mm256_slli_epi32(sums.high, 7), sums.low);
}
#endif

// Of one group and eight outputs, for rows whose activations are `stride` bytes apart.
template <bool nibbles, int rows>
inline void group_sums(const uint8_t* q, const int8_t* x, int64_t stride, Sums* sums) {
  constexpr int halves = nibbles ? 2 : 1;
#pragma GCC unroll 8
  for (int part = 0; part < kQuads; ++part) {
    int quad = part / halves, above = part % halves;
    __m256i w = bytes_at(q + quad * 64);
    if constexpr (nibbles)
      w = _mm256_and_si256(_mm256_srli_epi16(w, above * 4), _mm256_set1_epi8(15));
    const int8_t* at = x + (quad + above * kQuads / 2) * 4;
    for (int r = 0; r < rows; ++r, at += stride)
      add_quad<nibbles>(sums[r], w, quad_of(at), quad_of(at + kGroup));
  }
}

inline __m256 add_group(__m256 total, __m256i whole, __m256 scale, __m256 low,
                        float x_scale, float x_sum) {
  __m256 part = _mm256_mul_ps(_mm256_cvtepi32_ps(whole), scale);
  total = _mm256_fmadd_ps(part, _mm256_set1_ps(x_scale), total);
  return _mm256_fmadd_ps(low, _mm256_set1_ps(x_sum), total);
}

// Eight outputs of a tile, from lane `first`: sixteen would not leave registers for the
// sums of four rows.
template <bool nibbles, int rows>
void half_sums(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               int first, float (*sums)[kTile]) {
  int64_t groups = x.groups;
  __m256 totals[rows];
  for (auto& total : totals) total = _mm256_setzero_ps();
  for (int64_t group = 0; group < groups; ++group) {
    int64_t at = tile * groups + group, from = row * groups + group;
    const uint8_t* q = w.q + at * (kTile * kGroup / (nibbles ? 2 : 1)) + first * 4;
    Sums whole[rows] = {};
    group_sums<nibbles, rows>(q, x.q + from * 2 * kGroup, groups * 2 * kGroup, whole);
    __m256 scale = _mm256_load_ps(w.scale + at * kTile + first);
    __m256 low = _mm256_load_ps(w.low + at * kTile + first);
    for (int r = 0; r < rows; ++r, from += groups)
      totals[r] = add_group(totals[r], total_of<nibbles>(whole[r]), scale, low,
                            x.scale[from], x.sum[from]);
  }
  for (int r = 0; r < rows; ++r) _mm256_store_ps(sums[r] + first, totals[r]);
}

template <bool nibbles, int rows>
void tile_sums(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               float (*sums)[kTile]) {
  half_sums<nibbles, rows>(w, tile, x, row, 0, sums);
  half_sums<nibbles, rows>(w, tile, x, row, 8, sums);
}
