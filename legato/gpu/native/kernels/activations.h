// How activations are held: small integers in groups of 32 along k.
#pragma once
#include <cfloat>

#include "eight.h"
#include "packing.h"

// The bytes of a group of a row.
enum class Form {
  // 15 bits, numbers of a quad in the order 0, 2, 1, 3.
  words,
  // 15 bits, for kernels that multiply bytes: a number is 128 * high + low, all high
  // bytes come before all low ones.
  planes,
  // 8 bits, from the least of the group (0) to its most (255).
  bytes,
};

// Rows of activations: value = offset + scale * a whole number. Only bytes have offsets.
struct Activations {
  int16_t* q;     // [groups][rows][32]; of bytes half of it is used
  float* scale;   // [groups][rows]
  float* sum;     // [groups][rows]: of scale * number
  float* offset;  // [groups][rows]
  int64_t groups, rows;
  Form form;

  int64_t place(int64_t group, int64_t row) const { return group * rows + row; }

  const int8_t* planes(int64_t at) const {
    return reinterpret_cast<const int8_t*>(q + at * kGroup);
  }
  uint8_t* bytes(int64_t at) const {
    return reinterpret_cast<uint8_t*>(q) + at * kGroup;
  }

  void quantize(int64_t row, const float* x, int64_t count) const {
    int64_t whole = count / kGroup;
    for (int64_t group = 0; group < whole; ++group)
      quantize_group(place(group, row), x + group * kGroup);
    if (whole == groups) return;
    float part[kGroup] = {};
    std::copy(x + whole * kGroup, x + count, part);
    quantize_group(place(whole, row), part);
  }

 private:
  void quantize_group(int64_t at, const float* x) const {
    form == Form::bytes ? put_bytes(at, x) : put_halves(at, x);
  }

  void put_bytes(int64_t at, const float* x) const {
    float peak = peak_of(x);
    if (!(peak <= FLT_MAX)) {
      // What is broken makes all that comes of it NaN; the integers can't.
      std::memset(bytes(at), 0, kGroup);
      scale[at] = sum[at] = offset[at] = NAN;
      return;
    }
    auto [least, most] = ends_of(x);
    float step = (most - least) / 255, inverse = step > 0 ? 1 / step : 0;
    uint8_t* to = bytes(at);
    int total = 0;
    for (int i = 0; i < kGroup; ++i) {
      int value = int((x[i] - least) * inverse + 0.5f);
      to[i] = uint8_t(std::min(value, 255));
      total += to[i];
    }
    scale[at] = step;
    sum[at] = step * float(total);
    offset[at] = least;
  }

  // Of 15 bits, both forms.
  void put_halves(int64_t at, const float* x) const {
    constexpr int most = 127 * 128;
    float peak = peak_of(x), inverse = peak > 0 ? most / peak : 0;
    int values[kGroup], total = 0;
    for (int i = 0; i < kGroup; ++i) {
      values[i] = int(std::nearbyint(x[i] * inverse));
      total += values[i];
    }
    int16_t* to = q + at * kGroup;
    form == Form::planes ? put_planes(values, reinterpret_cast<int8_t*>(to))
                         : put_words(values, to);
    scale[at] = peak / most;
    sum[at] = scale[at] * float(total);
  }

  static void put_words(const int* values, int16_t* to) {
    for (int i = 0; i < kGroup; i += 4) {
      to[i] = int16_t(values[i]);
      to[i + 1] = int16_t(values[i + 2]);
      to[i + 2] = int16_t(values[i + 1]);
      to[i + 3] = int16_t(values[i + 3]);
    }
  }

  static void put_planes(const int* values, int8_t* to) {
    for (int i = 0; i < kGroup; ++i) {
      int high = (values[i] + 64) >> 7;
      to[i] = int8_t(high);
      to[kGroup + i] = int8_t(values[i] - high * 128);
    }
  }

  struct Ends {
    float least, most;
  };

  static Ends ends_of(const float* x) {
    Eight least = eight_at(x), most = least;
    for (int i = 8; i < kGroup; i += 8) {
      Eight next = eight_at(x + i);
      least = next < least ? next : least;
      most = next > most ? next : most;
    }
    return {-max_of(-least), max_of(most)};
  }

  // Compared as integers, which compilers vectorise, and where NaN is above all:
  // the integers can't carry one on, but the scale does.
  static float peak_of(const float* x) {
    int32_t most = 0;
    for (int i = 0; i < kGroup; ++i) {
      int32_t bits;
      std::memcpy(&bits, x + i, 4);
      most = std::max(most, bits & 0x7fffffff);
    }
    float peak;
    std::memcpy(&peak, &most, 4);
    return peak;
  }
};
