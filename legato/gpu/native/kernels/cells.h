// Where the keys and values of a sequence are: cells of pages, read in place.
#pragma once
#include <algorithm>
#include <cstdint>

#include "half.h"
#include "lines.h"

constexpr int kRun = 32;  // cells looked at together

struct Cache {
  void* keys;  // one layer: [cells][kv_heads][head_dim], floats or halves
  void* values;
  int64_t page_size, kv_heads, head_dim, halves;
};

// Some cells, for all heads; Number is float or, of halves, uint16_t.
template <typename Number>
struct Run {
  const Number *keys[kRun] = {}, *values[kRun] = {};  // of the first head
  int64_t count = 0;
};

// Those of one head.
template <typename Number>
struct Cells {
  const Run<Number>* run;
  int64_t shift;  // from the first head's numbers

  const Number* key(int64_t cell) const { return run->keys[cell] + shift; }
  const Number* value(int64_t cell) const { return run->values[cell] + shift; }
};

// Walks along a sequence's pages.
template <typename Number>
class Walk {
 public:
  Walk(const Cache& cache, const int64_t* table, int64_t end)
      : cache_(cache), page_(table), left_(end) {}

  // The next cells, at most a run of them and up to the end.
  void find(Run<Number>& run) {
    run.count = std::min<int64_t>(kRun, left_);
    left_ -= run.count;
    int64_t width = cache_.kv_heads * cache_.head_dim;
    for (int64_t c = 0; c < run.count;) {
      int64_t at = (*page_ * cache_.page_size + offset_) * width;
      int64_t many = std::min(run.count - c, cache_.page_size - offset_);
      for (int64_t end = c + many; c < end; ++c, at += width) {
        run.keys[c] = static_cast<const Number*>(cache_.keys) + at;
        run.values[c] = static_cast<const Number*>(cache_.values) + at;
      }
      offset_ += many;
      if (offset_ == cache_.page_size) offset_ = 0, ++page_;
    }
  }

 private:
  const Cache& cache_;
  const int64_t* page_;
  int64_t left_, offset_ = 0;
};

// A head's halves as floats, for many queries that share them.
class Floats {
 public:
  explicit Floats(int64_t dim)
      : dim_(dim), stride_((dim + 15) / 16 * 16), held_(size_t(2 * kRun * stride_)) {
    for (int64_t c = 0; c < kRun; ++c) {
      run_.keys[c] = held_.data() + c * stride_;
      run_.values[c] = held_.data() + (kRun + c) * stride_;
    }
  }

  Cells<float> fill(const Cells<uint16_t>& from) {
    run_.count = from.run->count;
    for (int64_t c = 0; c < run_.count; ++c) {
      halves_to_floats(from.key(c), dim_, held_.data() + c * stride_);
      halves_to_floats(from.value(c), dim_, held_.data() + (kRun + c) * stride_);
    }
    return {&run_, 0};
  }

 private:
  int64_t dim_, stride_;
  Lines<float> held_;
  Run<float> run_;
};
