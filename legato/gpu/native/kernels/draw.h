// Draws a token from a row of logits: temperature, top-k, top-p, min-p.
//
// Kept tokens are walked in the order of their ids, so that a last-bit difference between
// two likely tokens' logits cannot swap them under the same random number.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "likeliest.h"

// What a row wants of its draw.
struct Wish {
  float temperature;  // 0 takes the likeliest
  float top_p, min_p;
  int64_t top_k;  // 0 keeps all
  int64_t seed;
};

// A number in [0, 1) that depends on a seed and an output's number alone: SplitMix64's
// hash (Steele, Lea and Flood 2014) over both in turn. As randomness.py has it.
inline double uniform(int64_t seed, int64_t output) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15;
  auto mix = [](uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  };
  uint64_t bits = mix(mix(uint64_t(seed) + golden) + uint64_t(output + 1) * golden);
  return double(bits >> 11) * 0x1p-53;
}

class Draw {
 public:
  Draw(float* logits, int64_t count) : weights_(logits), count_(count) {}

  // Makes weights of the logits, in place, and draws; the peak must be finite.
  int64_t operator()(const Wish& wish, const Likeliest& likeliest, double number) {
    weigh(wish, likeliest.peak);
    if (wish.top_k > 0)
      keep(last_within(double(wish.top_k), [](float) { return 1.0; }));
    if (wish.top_p < 1)
      keep(last_within(total() * double(wish.top_p), [](float w) { return double(w); }));
    double left = number * total();
    size_t block = pick(blocks_.size(), left, [&](size_t i) { return blocks_[i]; });
    const float* from = weights_ + int64_t(block) * kBlock;
    size_t many = size_t(std::min(kBlock, count_ - int64_t(block) * kBlock));
    size_t token = pick(many, left, [&](size_t i) { return double(from[i]); });
    return int64_t(block) * kBlock + int64_t(token);
  }

 private:
  static constexpr int64_t kBlock = 256;

  // Relative to the likeliest, which gets 1.
  void weigh(const Wish& wish, float peak) {
    float scale = 1.44269504f / wish.temperature, least = std::min(wish.min_p, 1.0f);
    blocks_.clear();
    for (int64_t first = 0; first < count_; first += kBlock) {
      int64_t end = std::min(first + kBlock, count_), i = first;
      Eight sum = {};
      for (; i + 8 <= end; i += 8) {
        Eight weight = weight_of((eight_at(weights_ + i) - peak) * scale, least);
        put(weight, weights_ + i);
        sum += weight;
      }
      for (; i < end; ++i) {
        Eight all = Eight{} + (weights_[i] - peak) * scale;
        weights_[i] = weight_of(all, least)[0];
        sum[0] += weights_[i];
      }
      blocks_.push_back(double(sum_of(sum)));
    }
  }

  // What is too little for a float, or forbidden, is nothing at all.
  static Eight weight_of(Eight exponent, float least) {
    Eight weight = exp2_of_negative(exponent);
    const Eight none = {};
    weight = exponent < -125.0f ? none : weight;
    return weight < least ? none : weight;
  }

  double total() const {
    double sum = 0;
    for (double block : blocks_) sum += block;
    return sum;
  }

  // The first whose sum with all before it is above `left`, of which those before are
  // taken; else, by rounding, the last that weighs anything.
  template <typename Weight>
  static size_t pick(size_t count, double& left, const Weight& weight) {
    size_t last = 0;
    for (size_t i = 0; i < count; ++i) {
      double one = weight(i);
      if (one <= 0) continue;
      if (left < one) return i;
      left -= one;
      last = i;
    }
    left = std::max(left, 0.0);
    return last;
  }

  // Tokens by weight, of equals the first first, as numbers that sort so.
  using Key = uint64_t;

  static Key key_of(float weight, int64_t token) {
    uint32_t bits;
    std::memcpy(&bits, &weight, 4);
    return Key(bits) << 32 | uint32_t(~uint32_t(token));
  }

  static float weight_of(Key key) {
    uint32_t bits = uint32_t(key >> 32);
    float weight;
    std::memcpy(&weight, &bits, 4);
    return weight;
  }

  // Weights by size, sixteen bins to an octave.
  static constexpr int kShift = 32 + 19, kBins = (0x3f800000 >> 19) + 1;

  static size_t bin_of(float weight) {
    return std::min<size_t>(key_of(weight, 0) >> kShift, kBins - 1);
  }

  // The last token with less than an amount before it: first its bin, then it, as
  // quickselect finds.
  template <typename Measure>
  Key last_within(double amount, const Measure& measure) {
    double sums[kBins], before = 0;
    // Ever more tokens, until they suffice; the first look is nearly always enough.
    for (float least : {0x1p-10f, 0x1p-20f, 0x1p-40f, 0x1p-125f}) {
      std::fill_n(sums, kBins, 0.0);
      double sum = 0;
      each_from(least, [&](int64_t token) {
        double one = measure(weights_[token]);
        sums[bin_of(weights_[token])] += one;
        sum += one;
      });
      if (sum >= amount) break;
    }
    // Where all are less, by rounding too, the last is the last of all.
    size_t bin = kBins - 1, last = bin;
    for (double next = 0; bin > 0; --bin, before = next) {
      if (sums[bin] > 0) last = bin;
      next = before + sums[bin];
      if (next >= amount) break;
    }
    if (sums[bin] <= 0) bin = last, before = -INFINITY;
    keys_.clear();
    each_from(weight_of(Key(bin) << kShift), [&](int64_t token) {
      if (bin_of(weights_[token]) == bin) keys_.push_back(key_of(weights_[token], token));
    });
    size_t first = 0, end = keys_.size();
    auto at = [&](size_t i) { return keys_.begin() + int64_t(i); };
    while (end - first > 1) {
      size_t middle = first + (end - first) / 2;
      std::nth_element(at(first), at(middle), at(end), std::greater<Key>());
      double sum = 0;
      for (size_t i = first; i < middle; ++i) sum += measure(weight_of(keys_[i]));
      if (before + sum >= amount)
        end = middle;
      else
        before += sum, first = middle;
    }
    return keys_[first];
  }

  // Calls `look` with each token of at least a weight.
  template <typename Look>
  void each_from(float least, const Look& look) const {
    for (int64_t i = 0; i < count_; i += 8) {
      int64_t end = std::min(i + 8, count_);
      if (end == i + 8 && !any_of(eight_at(weights_ + i) >= least)) continue;
      for (int64_t token = i; token < end; ++token)
        if (weights_[token] >= least) look(token);
    }
  }

  // Takes the weight of all that come after a token.
  void keep(Key least) {
    float weight = weight_of(least);
    int64_t last = int64_t(uint32_t(~uint32_t(least)));
    for (size_t block = 0; block < blocks_.size(); ++block) {
      int64_t i = int64_t(block) * kBlock, end = std::min(i + kBlock, count_);
      Eight sum = {};
      for (; i + 8 <= end; i += 8) {
        Eight kept = eight_at(weights_ + i), none = {};
        if (any_of(kept == weight)) {
          for (int64_t j = i; j < i + 8; ++j) keep_one(j, weight, last);
          kept = eight_at(weights_ + i);
        }
        kept = kept < weight ? none : kept;
        put(kept, weights_ + i);
        sum += kept;
      }
      for (; i < end; ++i) {
        keep_one(i, weight, last);
        sum[0] += weights_[i];
      }
      blocks_[block] = double(sum_of(sum));
    }
  }

  void keep_one(int64_t token, float weight, int64_t last) {
    bool comes_after = weights_[token] == weight && token > last;
    if (comes_after || weights_[token] < weight) weights_[token] = 0;
  }

  float* weights_;
  int64_t count_;
  std::vector<double> blocks_;
  std::vector<Key> keys_;
};

// Chooses a row's token: the likeliest, or one that is drawn.
inline Likeliest choose(float* logits, int64_t count, const Wish& wish, int64_t output) {
  Likeliest found = likeliest_of(logits, count);
  if (wish.temperature > 0 && std::isfinite(found.peak))
    found.token = Draw(logits, count)(wish, found, uniform(wish.seed, output));
  return found;
}
