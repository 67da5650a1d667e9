// How activations are held: small integers in groups of 32 along k.
#pragma once
#include <atomic>
#include <cfloat>
#include <vector>

#include "eight.h"
#include "packing.h"

// The bytes of a group of a row.
enum class Form {
  // 15 bits, numbers of a quad in the order 0, 2, 1, 3.
  words,
  // 15 bits, for kernels that multiply bytes: a number is 128 * high + low, all high
  // bytes come before all low ones.
  planes,
  // 8 bits, from the least of the group (0) to its most (255), but for a spike.
  bytes,
};

// What a group's integers count for: value = offset + scale * number. Of bytes alone,
// one value that stands out may be more by a spike.
struct Measure {
  float scale, offset;
  float sum;  // of scale * number, and of the spike
  float spike;
  int32_t spike_at;
};

// Rows of activations.
struct Activations {
  int16_t* q;          // [groups][rows][32]; of bytes half of it is used
  Measure* measures;   // [groups][rows]
  uint64_t* spiky;     // [groups][rows / 64]: which rows have a spike
  int64_t groups, rows;
  Form form;

  int64_t place(int64_t group, int64_t row) const { return group * rows + row; }

  const int8_t* planes(int64_t at) const {
    return reinterpret_cast<const int8_t*>(q + at * kGroup);
  }
  uint8_t* bytes(int64_t at) const {
    return reinterpret_cast<uint8_t*>(q) + at * kGroup;
  }

  static int64_t words_of(int64_t rows) { return (rows + 63) / 64; }

  // Calls visit(row, measure) for each spike of a group.
  template <typename Visit>
  void each_spike(int64_t group, const Visit& visit) const {
    for (int64_t word = 0; word < words_of(rows); ++word)
      for (uint64_t left = spiky[group * words_of(rows) + word]; left; left &= left - 1) {
        int64_t row = word * 64 + __builtin_ctzll(left);
        visit(row, measures[place(group, row)]);
      }
  }

  // Not inline, for the sake of the same bits wherever it is called from.
  [[gnu::noinline]] void quantize(int64_t row, const float* x, int64_t count) const {
    int64_t whole = count / kGroup;
    for (int64_t group = 0; group < whole; ++group)
      quantize_group(group, row, x + group * kGroup);
    if (whole == groups) return;
    float part[kGroup] = {};
    std::copy(x + whole * kGroup, x + count, part);
    quantize_group(whole, row, part);
  }

 private:
  // A spike is this many times the root mean square of the others. Without it they are
  // told apart more finely; one in seven of SmolLM2's groups has one.
  static constexpr float kSpike = 6;
  // Less is held as nothing: its inverse might be infinite.
  static constexpr float kLeast = 1e-30f;

  void quantize_group(int64_t group, int64_t row, const float* x) const {
    int64_t at = place(group, row);
    float peak = peak_of(x);
    if (!(peak <= FLT_MAX)) {
      // What is broken makes all that comes of it NaN; the integers can't.
      clear(at);
      measures[at] = {NAN, NAN, NAN, 0, 0};
    } else if (form != Form::bytes) {
      put_halves(at, x, peak);
    } else if (put_bytes(at, x, peak)) {
      std::atomic_ref(spiky[group * words_of(rows) + row / 64])
          .fetch_or(uint64_t(1) << row % 64, std::memory_order_relaxed);
    }
  }

  void clear(int64_t at) const {
    if (form == Form::bytes)
      std::memset(bytes(at), 0, kGroup);
    else
      std::memset(q + at * kGroup, 0, kGroup * sizeof(int16_t));
  }

  // Returns whether there is a spike.
  bool put_bytes(int64_t at, const float* x, float peak) const {
    if (!stands_out(x, peak)) {
      measures[at] = put_range(x, bytes(at));
      return false;
    }
    float others[kGroup];
    std::copy(x, x + kGroup, others);
    int32_t where = 0;
    while (std::fabs(x[where]) != peak) ++where;
    others[where] = 0;
    Measure measure = put_range(others, bytes(at));
    float held = measure.offset + measure.scale * bytes(at)[where];
    measure.spike = x[where] - held;
    measure.spike_at = where;
    measure.sum += measure.spike;
    measures[at] = measure;
    return true;
  }

  static bool stands_out(const float* x, float peak) {
    Eight squares = {};
    for (int i = 0; i < kGroup; i += 8) squares += eight_at(x + i) * eight_at(x + i);
    float others = sum_of(squares) - peak * peak;
    return peak * peak * (kGroup - 1) > kSpike * kSpike * others;
  }

  static Measure put_range(const float* x, uint8_t* to) {
    Eight least = eight_at(x), most = least;
    for (int i = 8; i < kGroup; i += 8) {
      Eight next = eight_at(x + i);
      least = next < least ? next : least;
      most = larger(most, next);
    }
    float offset = -max_of(-least), step = (max_of(most) - offset) / 255;
    float inverse = step > kLeast ? 1 / step : 0;
    int total = 0;
    for (int i = 0; i < kGroup; ++i) {
      int number = std::min(int((x[i] - offset) * inverse + 0.5f), 255);
      to[i] = uint8_t(number);
      total += number;
    }
    return {step, offset, step * float(total), 0, 0};
  }

  // Of 15 bits, both forms.
  void put_halves(int64_t at, const float* x, float peak) const {
    constexpr int most = 127 * 128;
    float inverse = peak > kLeast ? most / peak : 0;
    int values[kGroup], total = 0;
    for (int i = 0; i < kGroup; ++i) {
      values[i] = int(std::nearbyint(x[i] * inverse));
      total += values[i];
    }
    int16_t* to = q + at * kGroup;
    form == Form::planes ? put_planes(values, reinterpret_cast<int8_t*>(to))
                         : put_words(values, to);
    float scale = peak / most;
    measures[at] = {scale, 0, scale * float(total), 0, 0};
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

// Memory for activations, used again and again.
class ActivationStore {
 public:
  void reserve(int64_t rows, int64_t width) {
    int64_t groups = (width + kGroup - 1) / kGroup;
    size_t size = size_t(rows * groups);
    if (measures_.size() >= size) return;
    q_.resize(size * kGroup);
    measures_.resize(size);
    spiky_.resize(size_t(Activations::words_of(rows) * groups));
  }

  // Rows that are still to be quantized; within what was reserved.
  Activations rows(int64_t rows, int64_t groups, Form form) {
    std::fill_n(spiky_.begin(), groups * Activations::words_of(rows), 0);
    return {q_.data(), measures_.data(), spiky_.data(), groups, rows, form};
  }

 private:
  std::vector<int16_t> q_;
  std::vector<Measure> measures_;
  std::vector<uint64_t> spiky_;
};
