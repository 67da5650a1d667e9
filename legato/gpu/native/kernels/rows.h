// What is done to single tokens between products.
#pragma once
#include <cmath>
#include <cstdint>

#include "attention.h"

// Root mean square norm; `out` may be `x`, a null weight is ones.
inline void norm(const float* x, const float* weight, int64_t size, float eps,
                 float* out) {
  float squares = 0;
  for (int64_t i = 0; i < size; ++i) squares += x[i] * x[i];
  float scale = 1 / std::sqrt(squares / float(size) + eps);
  if (weight)
    for (int64_t i = 0; i < size; ++i) out[i] = x[i] * scale * weight[i];
  else
    for (int64_t i = 0; i < size; ++i) out[i] = x[i] * scale;
}

// Rotates a head in place; sin is negative in its first half.
inline void rotate(float* x, const float* cos, const float* sin, int64_t dim) {
  for (int64_t i = 0, half = dim / 2; i < half; ++i) {
    float first = x[i], second = x[i + half];
    x[i] = first * cos[i] + second * sin[i];
    x[i + half] = second * cos[i + half] + first * sin[i + half];
  }
}

// out = silu(gate) * up, of [gate, up].
inline void gate(const float* gate_up, int64_t size, float* out) {
  for (int64_t i = 0; i < size; ++i) {
    float x = gate_up[i];
    out[i] = x / (1 + fast_exp(-x)) * gate_up[size + i];
  }
}
