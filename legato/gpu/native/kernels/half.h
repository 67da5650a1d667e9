// Half precision, by the processor's own instructions or bit by bit.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

inline float half_to_float(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000) << 16, rest = half & 0x7fff;
  // Shifted into place, then scaled by 2^112: subnormals come out right by themselves.
  uint32_t bits = rest << 13;
  float value;
  std::memcpy(&value, &bits, 4);
  value *= 0x1p112f;
  std::memcpy(&bits, &value, 4);
  if (rest >= 0x7c00) bits |= 0x7f800000;
  bits |= sign;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Rounds to the nearest, ties to even; what is too large becomes infinite.
inline uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (rest >= 0x47800000) return uint16_t(sign | 0x7c00);
  if (rest < 0x38800000) {  // subnormal: the sum's own rounding does it
    float small;
    std::memcpy(&small, &rest, 4);
    small += 0.5f;
    std::memcpy(&rest, &small, 4);
    return uint16_t(sign | (rest - 0x3f000000));
  }
  rest += 0xfff + (rest >> 13 & 1);
  return uint16_t(sign | ((rest - 0x38000000) >> 13));
}

inline void halves_to_floats(const uint16_t* from, int64_t count, float* to) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                 reinterpret_cast<const __m128i*>(from + i))));
#elif defined(__aarch64__)
  for (; i + 4 <= count; i += 4)
    vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
#endif
  for (; i < count; ++i) to[i] = half_to_float(from[i]);
}

// What is too large becomes the largest; NaN stays.
inline void floats_to_halves(const float* from, int64_t count, uint16_t* to) {
  const float most = 65504;
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    __m256 x = _mm256_loadu_ps(from + i);
    // The second operand is what a NaN leaves.
    x = _mm256_max_ps(_mm256_set1_ps(-most), _mm256_min_ps(_mm256_set1_ps(most), x));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__aarch64__)
  for (; i + 4 <= count; i += 4) {
    // Of a NaN the minimum and the maximum are NaN.
    float32x4_t x = vminq_f32(vld1q_f32(from + i), vdupq_n_f32(most));
    x = vmaxq_f32(x, vdupq_n_f32(-most));
    vst1_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(x)));
  }
#endif
  for (; i < count; ++i) {
    float x = from[i] > most ? most : from[i] < -most ? -most : from[i];
    to[i] = float_to_half(x);
  }
}
