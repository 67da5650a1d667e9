// What the whole numbers of a block's outputs count for.
#pragma once
#include <immintrin.h>

#include "activations.h"

constexpr int kSides = kTile / 8;  // eight outputs fill a register

inline __m256 halves_at(const uint8_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

struct Scales {
  alignas(32) float scale[kTile], low[kTile];

  Scales(const uint8_t* from, bool has_low) {
    for (int side = 0; side < kSides; ++side) {
      _mm256_store_ps(scale + side * 8, halves_at(from + side * 16));
      if (has_low)
        _mm256_store_ps(low + side * 8, halves_at(from + (kSides + side) * 16));
    }
  }

  // Adds eight outputs of a group to a row's sums.
  template <bool has_low>
  void add(__m256i whole, int side, __m256 x_scale, __m256 x_sum, float* sums) const {
    __m256 part =
        _mm256_mul_ps(_mm256_cvtepi32_ps(whole), _mm256_load_ps(scale + side * 8));
    __m256 total = _mm256_fmadd_ps(part, x_scale, _mm256_load_ps(sums + side * 8));
    if constexpr (has_low)
      total = _mm256_fmadd_ps(_mm256_load_ps(low + side * 8), x_sum, total);
    _mm256_store_ps(sums + side * 8, total);
  }
};

inline __m256i bytes_at(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// Four bytes of activations, for all outputs.
inline __m256i four_of(const void* x) {
  int four;
  std::memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}
