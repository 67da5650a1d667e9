// Matrices as GGUF files hold them, packed without becoming floats in between.
// Formats: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
#pragma once
#include "packing.h"

enum Stored : int64_t { kQ4_0 = 2, kQ4_1 = 3, kQ8_0 = 8 };

inline int64_t stored_bytes(int64_t kind) {
  return kind == kQ4_0 ? 18 : kind == kQ4_1 ? 20 : 34;
}

// Packs rows of blocks as outputs from `first` on. Of 4 bits, the file's bytes are those
// of a packed block already, in another order: its low nibbles are the first sixteen.
inline void pack_stored(const uint8_t* from, int64_t kind, int64_t rows,
                        const Weights& to, uint8_t* blocks, int64_t first) {
  int64_t size = stored_bytes(kind), halves = kind == kQ4_1 ? 4 : 2;
  int quads = kind == kQ8_0 ? kQuads : kQuads / 2;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t index = 0; index < to.groups(); ++index, from += size) {
      int64_t out = first + row, tile = out / kTile, lane = out % kTile;
      uint8_t* block = blocks + (tile * to.groups() + index) * to.block_bytes();
      for (int quad = 0; quad < quads; ++quad) {
        uint32_t four;
        std::memcpy(&four, from + halves + quad * 4, 4);
        std::memcpy(block + quad * kRowBytes + lane * 4, &four, 4);
      }
      uint16_t numbers[2];
      std::memcpy(numbers, from, halves);
      if (kind == kQ4_0) numbers[1] = float_to_half(-8 * half_to_float(numbers[0]));
      uint8_t* scale = block + to.value_bytes() + lane * 2;
      std::memcpy(scale, numbers, 2);
      if (to.nibbles) std::memcpy(scale + kTile * 2, numbers + 1, 2);
    }
}
