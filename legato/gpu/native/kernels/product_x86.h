// One tile of a product with AVX2, and with VNNI where the processor has it.
#pragma once
#include <immintrin.h>

#include "packing.h"

constexpr bool kVectorised = true;
// Rows that share a weight in registers: with sixteen outputs, three rows of two bytes
// have twelve sums; two weights, a value and a product fill the sixteen.
constexpr int kRows = 3;

inline __m256i quad_of(const int8_t* x) {
  int four;
  std::memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

inline __m256i bytes_at(const uint8_t* q) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q));
}

inline __m256 halves_at(const uint8_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

// Eight outputs of a quad. Where bytes are multiplied as magnitudes, x takes their sign.
struct Quad {
  __m256i size, sign;
};

template <bool nibbles>
inline Quad quad_at(const uint8_t* block, int part) {
  if constexpr (nibbles) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i both = bytes_at(block + part / 2 * 64);
    if (part % 2) both = _mm256_srli_epi16(both, 4);
    return {_mm256_and_si256(both, mask), both};
  }
  __m256i bytes = bytes_at(block + part * 64);
  return {kOffset ? bytes : _mm256_abs_epi8(bytes), bytes};
}

// Quads are taken as they are held: 0, 4, 1, 5, ... of 4-bit blocks.
template <bool nibbles>
constexpr int quad_number(int part) {
  return nibbles ? part / 2 + part % 2 * kQuads / 2 : part;
}

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
template <bool nibbles>
inline __m256i add_quad(__m256i sum, const Quad& w, __m256i x, int) {
  return _mm256_dpbusd_epi32(sum, w.size, x);
}
#elif defined(__AVXVNNI__)
template <bool nibbles>
inline __m256i add_quad(__m256i sum, const Quad& w, __m256i x, int) {
  return _mm256_dpbusd_avx_epi32(sum, w.size, x);
}
#else
#define LEGATO_MADDUBS
template <bool nibbles>
inline __m256i add_quad(__m256i sum, const Quad& w, __m256i x, int weight) {
  // Of 4 bits a whole group fits into 16 bits: 32 / 2 * 15 * 127 = 30,480.
  if constexpr (nibbles)
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w.size, x));
  x = _mm256_maddubs_epi16(w.size, _mm256_sign_epi8(x, w.sign));
  x = _mm256_madd_epi16(x, _mm256_set1_epi16(short(weight)));
  return _mm256_add_epi32(sum, x);
}
#endif

// The whole sum of a group.
template <bool nibbles>
inline __m256i total_of(__m256i high, __m256i low) {
#ifdef LEGATO_MADDUBS
  if constexpr (!nibbles) return _mm256_add_epi32(high, low);
  high = _mm256_madd_epi16(high, _mm256_set1_epi16(128));
  return _mm256_add_epi32(high, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
#else
  return _mm256_add_epi32(_mm256_slli_epi32(high, 7), low);
#endif
}

template <bool nibbles>
inline __m256 add_group(__m256 total, __m256i whole, __m256 scale, __m256 low,
                        float x_scale, float x_sum) {
  __m256 part = _mm256_mul_ps(_mm256_cvtepi32_ps(whole), scale);
  total = _mm256_fmadd_ps(part, _mm256_set1_ps(x_scale), total);
  if constexpr (!nibbles && !kOffset) return total;
  return _mm256_fmadd_ps(low, _mm256_set1_ps(x_sum), total);
}

// Ahead of the reading, by more than the processor's own prefetching dares: with it one
// row at a time runs 1.6 times faster through weights that no cache holds.
constexpr int64_t kAhead = 4096;

inline void prefetch(const uint8_t* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + at), _MM_HINT_T0);
}

template <bool nibbles, int rows>
void tile_sums(const Weights& w, int64_t tile, const Activations& x, int64_t row,
               float (*sums)[kTile]) {
  const int64_t groups = x.groups, stride = groups * 2 * kGroup;
  constexpr int64_t value_bytes = kTile * kGroup / (nibbles ? 2 : 1);
  constexpr int64_t block_bytes = value_bytes + kTile * (nibbles ? 4 : 2);
  const uint8_t* block = w.block(tile, 0);
  const int8_t* values = x.q + row * stride;
  std::memset(sums, 0, sizeof(float) * rows * kTile);
  for (int64_t group = 0; group < groups; ++group) {
    prefetch(block + kAhead, block_bytes);
    __m256i whole[rows][2][2] = {};
#pragma GCC unroll 8
    for (int part = 0; part < kQuads; ++part) {
      Quad first = quad_at<nibbles>(block, part);
      Quad second = quad_at<nibbles>(block + 32, part);
      const int8_t* at = values + quad_number<nibbles>(part) * 4;
#pragma GCC unroll 3
      for (int r = 0; r < rows; ++r, at += stride)
#pragma GCC unroll 2
        for (int plane = 0; plane < 2; ++plane) {
          auto &left = whole[r][0][plane], &right = whole[r][1][plane];
          const int weight = plane ? 1 : 128;
          __m256i quad = quad_of(at + plane * kGroup);
          left = add_quad<nibbles>(left, first, quad, weight);
          right = add_quad<nibbles>(right, second, quad, weight);
          // Else GCC multiplies a whole group first, keeps the products in memory, and
          // adds them at the end.
          asm("" : "+x"(left), "+x"(right));
        }
    }
#pragma GCC unroll 2
    for (int side = 0; side < 2; ++side) {
      const uint8_t* numbers = block + value_bytes + side * 16;
      __m256 scale = halves_at(numbers), least = scale;
      if constexpr (nibbles) least = halves_at(numbers + kTile * 2);
      if constexpr (!nibbles) least = _mm256_mul_ps(scale, _mm256_set1_ps(-kOffset));
      int64_t from = row * groups + group;
#pragma GCC unroll 3
      for (int r = 0; r < rows; ++r, from += groups) {
        float* to = sums[r] + side * 8;
        __m256i total = total_of<nibbles>(whole[r][side][0], whole[r][side][1]);
        _mm256_store_ps(to, add_group<nibbles>(_mm256_load_ps(to), total, scale, least,
                                               x.scale[from], x.sum[from]));
      }
    }
    block += block_bytes;
    values += 2 * kGroup;
  }
}
