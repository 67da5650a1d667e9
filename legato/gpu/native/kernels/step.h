// A step through all layers of a decoder.
#pragma once
#include <vector>

#include "attention.h"
#include "lines.h"
#include "product.h"
#include "rows.h"

// A vector for each token: rows of packed weights, or of a table.
struct Embedding {
  const Weights* packed;  // or null
  const void* table;      // [vocab][hidden]
  int64_t hidden, kind;   // of the table: floats, halves, or the upper halves of floats

  enum Kind : int64_t { kFloats, kHalves, kUppers };

  void look_up(int64_t token, float* to) const {
    if (packed) return unpack(*packed, token, to);
    if (kind == kFloats) {
      std::memcpy(to, static_cast<const float*>(table) + token * hidden, hidden * 4);
      return;
    }
    const uint16_t* from = static_cast<const uint16_t*>(table) + token * hidden;
    if (kind == kHalves) return halves_to_floats(from, hidden, to);
    for (int64_t i = 0; i < hidden; ++i) {
      uint32_t bits = uint32_t(from[i]) << 16;
      std::memcpy(to + i, &bits, 4);
    }
  }
};

struct Layer {
  const float* input_norm;
  Weights qkv;
  const float* qk_norm;  // [heads + kv_heads][head_dim] or null
  Weights output;
  const float* mlp_norm;
  Weights gate_up, down;
};

struct Model {
  int64_t num_layers, hidden, heads, ffn;
  const Layer* layers;
  const float* final_norm;
  Weights head;
  const float *cos, *sin;  // [positions][head_dim]
  Cache cache;             // of the first layer
  int64_t cells;           // of a layer
  float eps;
  Embedding embedding;
};

struct Step {
  Batch batch;
  int64_t tokens, samples;
  int64_t whole;  // whether all tokens go through all layers, not only who samples
  const int64_t *positions, *cells;  // [tokens]
  const int64_t* sampling;           // [samples], ascending
  float* x;                          // [tokens][hidden]: embedded, then overwritten
  float* logits;                     // [samples][vocab]
};

class Decoder {
 public:
  Decoder(const Model& model, int num_threads) : model_(model), pool_(num_threads) {}

  const Model& model() const { return model_; }
  Pool& pool() { return pool_; }

  void forward(const Step& step) {
    reserve(step);
    Going going{step.batch, step.tokens, nullptr};
    for (int64_t index = 0; index < model_.num_layers; ++index) {
      const Layer& layer = model_.layers[index];
      Cache cache = cache_of(index);
      remember(step, layer, cache);
      if (index == model_.num_layers - 1 && !step.whole) going = sampling_of(step);
      attend(pool_, cache, going.batch, wide_.data(), layer.qkv.outs, model_.heads,
             attended_.data());
      output(step.x, going, layer);
      feed(step.x, going.count, layer);
    }
    auto x = activations(model_.head, step.samples);
    rows(step.samples, [&](int64_t row) {
      int64_t at = going.at ? row : step.sampling[row];
      quantize_norm(x, row, step.x + at * model_.hidden, model_.final_norm);
    });
    product(pool_, model_.head, x, {step.logits, model_.head.outs, false});
  }

 private:
  // Tokens that go on once keys and values are stored.
  struct Going {
    Batch batch;
    int64_t count;
    const int64_t* at;  // [count] where they stand among the step's, or null: as all do
  };

  // Tokens of one item: enough work to be worth waking a thread.
  static constexpr int64_t kTokens = 8;

  template <typename Work>
  void rows(int64_t count, const Work& work) {
    pool_.run((count + kTokens - 1) / kTokens, [&](int64_t item) {
      int64_t end = std::min(count, (item + 1) * kTokens);
      for (int64_t row = item * kTokens; row < end; ++row) work(row);
    });
  }

  int64_t widest() const {
    int64_t heads = model_.heads * model_.cache.head_dim;
    return std::max({model_.hidden, model_.ffn, heads}) + kGroup;
  }

  void reserve(const Step& step) {
    int64_t rows = std::max(step.tokens, step.samples);
    size_t size = size_t(rows * widest());
    if (attended_.size() >= size) return;
    quantized_.reserve(rows, widest());
    attended_.resize(size);
    int64_t qkv = model_.layers->qkv.outs;
    wide_.resize(size_t(step.tokens * std::max(qkv, 2 * model_.ffn)));
  }

  Activations activations(const Weights& of, int64_t rows) {
    return quantized_.rows(rows, of.groups(), form_of(of, rows));
  }

  void quantize_norm(const Activations& to, int64_t row, const float* x,
                     const float* weight) const {
    thread_local std::vector<float> normed;
    normed.resize(size_t(model_.hidden));
    norm(x, weight, model_.hidden, model_.eps, normed.data());
    to.quantize(row, normed.data(), model_.hidden);
  }

  Cache cache_of(int64_t index) const {
    Cache cache = model_.cache;
    int64_t shift = index * model_.cells * cache.kv_heads * cache.head_dim;
    shift *= cache.halves ? sizeof(uint16_t) : sizeof(float);
    cache.keys = static_cast<char*>(cache.keys) + shift;
    cache.values = static_cast<char*>(cache.values) + shift;
    return cache;
  }

  void remember(const Step& step, const Layer& layer, const Cache& cache) {
    int64_t qkv = layer.qkv.outs;
    auto x = activations(layer.qkv, step.tokens);
    rows(step.tokens, [&](int64_t row) {
      quantize_norm(x, row, step.x + row * model_.hidden, layer.input_norm);
    });
    product(pool_, layer.qkv, x, {wide_.data(), qkv, false});
    rows(step.tokens, [&](int64_t row) {
      place(step, layer, cache, row, wide_.data() + row * qkv);
    });
  }

  // Of the last layer's other tokens nothing is wanted but keys and values. Those that
  // sample are the last of their rows.
  Going sampling_of(const Step& step) {
    const Batch& all = step.batch;
    size_t count = size_t(step.samples), width = size_t(all.table_width);
    starts_.resize(count);
    ones_.assign(count, 1);
    tables_.resize(count * width);
    int64_t row = 0;
    for (size_t i = 0; i < count; ++i) {
      while (all.firsts[row] + all.counts[row] <= step.sampling[i]) ++row;
      starts_[i] = all.starts[row] + step.sampling[i] - all.firsts[row];
      std::copy_n(all.tables + row * all.table_width, width, &tables_[i * width]);
    }
    return {{starts_.data(), ones_.data(), step.sampling, tables_.data(), step.samples,
             all.table_width},
            step.samples,
            step.sampling};
  }

  // Those that go on move together.
  void output(float* x, const Going& going, const Layer& layer) {
    int64_t width = model_.heads * model_.cache.head_dim;
    for (int64_t row = 0; going.at && row < going.count; ++row)
      std::memmove(x + row * model_.hidden, x + going.at[row] * model_.hidden,
                   size_t(model_.hidden) * sizeof(float));
    auto attended = activations(layer.output, going.count);
    rows(going.count, [&](int64_t row) {
      int64_t at = going.at ? going.at[row] : row;
      attended.quantize(row, attended_.data() + at * width, width);
    });
    product(pool_, layer.output, attended, {x, model_.hidden, true});
  }

  // Norms and rotates a token's queries and keys; stores its keys and values.
  void place(const Step& step, const Layer& layer, const Cache& cache, int64_t row,
             float* qkv) const {
    int64_t dim = cache.head_dim, turning = model_.heads + cache.kv_heads;
    int64_t position = step.positions[row] * dim;
    for (int64_t head = 0; head < turning; ++head) {
      float* x = qkv + head * dim;
      if (layer.qk_norm) norm(x, layer.qk_norm + head * dim, dim, model_.eps, x);
      rotate(x, model_.cos + position, model_.sin + position, dim);
    }
    int64_t width = cache.kv_heads * dim, cell = step.cells[row] * width;
    keep(cache, cache.keys, qkv + model_.heads * dim, width, cell);
    keep(cache, cache.values, qkv + turning * dim, width, cell);
  }

  static void keep(const Cache& cache, void* cells, const float* from, int64_t width,
                   int64_t at) {
    if (cache.halves)
      floats_to_halves(from, width, static_cast<uint16_t*>(cells) + at);
    else
      std::memcpy(static_cast<float*>(cells) + at, from, width * sizeof(float));
  }

  void feed(float* x, int64_t count, const Layer& layer) {
    int64_t ffn = model_.ffn;
    auto normed = activations(layer.gate_up, count);
    rows(count, [&](int64_t row) {
      quantize_norm(normed, row, x + row * model_.hidden, layer.mlp_norm);
    });
    product(pool_, layer.gate_up, normed, {wide_.data(), 2 * ffn, false});
    auto gated = activations(layer.down, count);
    rows(count, [&](int64_t row) {
      float* gate_up = wide_.data() + row * 2 * ffn;
      gate(gate_up, ffn, gate_up);
      gated.quantize(row, gate_up, ffn);
    });
    product(pool_, layer.down, gated, {x, model_.hidden, true});
  }

  Model model_;
  Pool pool_;
  ActivationStore quantized_;
  std::vector<int64_t> starts_, ones_, tables_;  // of those that sample
  Lines<float> wide_, attended_;
};
