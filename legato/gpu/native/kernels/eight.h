// Eight floats at a time, in the compiler's own vectors; and exp.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "half.h"

typedef float Eight __attribute__((vector_size(32)));
typedef int32_t EightInts __attribute__((vector_size(32)));

inline Eight eight_at(const float* from) {
  Eight eight;
  std::memcpy(&eight, from, sizeof eight);
  return eight;
}

inline Eight eight_at(const uint16_t* halves) {
#if defined(__F16C__)
  return Eight(
      _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves))));
#else
  float floats[8];
  halves_to_floats(halves, 8, floats);
  return eight_at(floats);
#endif
}

inline void put(Eight eight, float* to) { std::memcpy(to, &eight, sizeof eight); }

// In a register: else GCC reads what is used three times from memory three times.
inline Eight held(Eight eight) {
#if defined(__AVX__)
  asm("" : "+x"(eight));
#endif
  return eight;
}

inline float one_at(const float* from) { return *from; }
inline float one_at(const uint16_t* half) { return half_to_float(*half); }

// Sums of neighbours: after pairs, twos and fours of eight vectors each lane holds the
// sum of one.
inline Eight pairs(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}


inline Eight fours(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

inline float sum_of(Eight x) {
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[i];
  return sum;
}

inline Eight larger(Eight a, Eight b) { return a > b ? a : b; }

inline float max_of(Eight x) {
  x = larger(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
  x = larger(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
  return std::max(x[0], x[1]);
}

inline bool any_of(EightInts mask) {
#if defined(__AVX__)
  return !_mm256_testz_si256(__m256i(mask), __m256i(mask));
#else
  int32_t any = 0;
  for (int i = 0; i < 8; ++i) any |= mask[i];
  return any;
#endif
}

// The first `count` lanes; -infinity beyond.
inline Eight first_of(Eight x, int32_t count) {
  const EightInts lanes = {0, 1, 2, 3, 4, 5, 6, 7};
  const Eight none = Eight{} - INFINITY;
  return lanes < count ? x : none;
}

// exp to 2 units in the last place, in a form that compilers vectorise; NaN stays.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  float whole = std::nearbyint(x * 1.44269504f);
  float rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  float power = 1.0f / 720;
  for (float term : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    power = power * rest + term;
  int32_t bits = (int32_t(whole) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return power * scale;
}

// 2 to the power of numbers up to 0, to 2 units in the last place; NaN stays.
inline Eight exp2_of_negative(Eight x) {
  const Eight least = Eight{} - 125.0f;
  x = x < least ? least : x;
  EightInts whole = __builtin_convertvector(x - 0.5f, EightInts);
  Eight rest = x - __builtin_convertvector(whole, Eight);
  // Fitted for the least relative error between -1/2 and 1/2.
  Eight power = Eight{} + 1.3264726e-3f;
  for (float term : {9.6715127e-3f, 5.5507337e-2f, 0.24022242f, 0.69314698f, 1.0f})
    power = power * rest + term;
  EightInts bits;
  std::memcpy(&bits, &power, sizeof bits);
  bits += whole << 23;
  std::memcpy(&power, &bits, sizeof bits);
  return power;
}
