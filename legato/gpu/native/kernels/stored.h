// Matrices as GGUF files hold them, packed without becoming floats in between.
// Formats: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
#pragma once
#include "packing.h"

enum Stored : int64_t { kQ4_0 = 2, kQ4_1 = 3, kQ8_0 = 8 };

inline int64_t stored_bytes(int64_t kind) {
  return kind == kQ4_0 ? 18 : kind == kQ4_1 ? 20 : 34;
}

// One block of 32: a half, of Q4_1 another, then bytes or nibbles. The low nibbles are
// the first sixteen.
inline Group stored_group(const uint8_t* from, int64_t kind) {
  Group group;
  std::memcpy(&group.scale, from, 2);
  if (kind == kQ8_0) {
    for (int i = 0; i < kGroup; ++i) group.values[i] = int8_t(from[2 + i]);
    return group;
  }
  if (kind == kQ4_1)
    std::memcpy(&group.low, from + 2, 2);
  else
    group.low = float_to_half(-8 * half_to_float(group.scale));
  const uint8_t* bytes = from + (kind == kQ4_1 ? 4 : 2);
  for (int i = 0; i < kGroup / 2; ++i) {
    group.values[i] = bytes[i] & 15;
    group.values[i + kGroup / 2] = bytes[i] >> 4;
  }
  return group;
}

// Packs rows of blocks as outputs from `first` on.
inline void pack_stored(const uint8_t* from, int64_t kind, int64_t rows,
                        const Weights& to, uint8_t* blocks, int64_t first) {
  int64_t size = stored_bytes(kind);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t index = 0; index < to.groups(); ++index, from += size)
      put_group(to, blocks, first + row, index, stored_group(from, kind));
}
