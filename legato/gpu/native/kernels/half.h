// Half precision, bit by bit: a plain processor needs it only to pack.
#pragma once
#include <cstdint>
#include <cstring>

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
