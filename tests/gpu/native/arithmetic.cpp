// Writes what the kernels compute of fixed inputs to a file, as floats.
#include <cstdio>
#include <random>

#include "kernels.cpp"

std::mt19937 numbers(7);

float normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += double(numbers()) / 4294967296.0;
  return float(sum);
}

std::vector<float> normals(size_t count) {
  std::vector<float> made(count);
  for (float& x : made) x = normal();
  return made;
}

// Of 4 bits: levels from -1 to 0.875, both ends in each group.
std::vector<float> matrix(int outs, int ins, bool nibbles) {
  if (!nibbles) return normals(size_t(outs * ins));
  std::vector<float> made(size_t(outs * ins));
  for (size_t i = 0; i < made.size(); ++i) {
    int level = i % size_t(ins) % 32 < 2 ? int(i % size_t(ins) % 32) * 15
                                         : int(numbers() % 16);
    made[i] = float(level) * 0.125f - 1;
  }
  return made;
}

std::vector<float> project(int outs, int ins, int rows, bool nibbles,
                           bool coarse = false) {
  Weights w{nullptr, nullptr, outs, ins, nibbles, coarse};
  std::vector<uint8_t> blocks(size_t(w.tiles() * w.groups() * w.block_bytes()));
  w.blocks = blocks.data();
  auto from = matrix(outs, ins, nibbles), x = normals(size_t(rows * ins));
  for (size_t i = 0; coarse && i < x.size(); i += 50) x[i] *= 20;  // spikes
  pack(from.data(), w, blocks.data());
  std::vector<float> out(size_t(rows * outs));
  Pool pool(2);
  legato_project(&pool, &w, x.data(), rows, out.data(), 0);
  return out;
}

std::vector<float> attend_to(int dim, bool halves) {
  constexpr int kv_heads = 2, heads = 6, page = 8, pages = 8, tokens = 12;
  auto keys = normals(size_t(page * pages * kv_heads * dim)), values = keys;
  for (float& x : values) x = normal();
  std::vector<uint16_t> half_keys(keys.size()), half_values(keys.size());
  floats_to_halves(keys.data(), int64_t(keys.size()), half_keys.data());
  floats_to_halves(values.data(), int64_t(keys.size()), half_values.data());
  Cache cache{keys.data(), values.data(), page, kv_heads, dim, halves};
  if (halves) cache.keys = half_keys.data(), cache.values = half_values.data();
  int64_t starts[] = {27, 3}, counts[] = {1, 11}, firsts[] = {0, 1};
  int64_t tables[] = {5, 0, 7, 2, 1, 6, 4, 3};
  Batch batch{starts, counts, firsts, tables, 2, 4};
  auto q = normals(size_t(tokens * heads * dim)), out = q;
  Pool pool(2);
  legato_attend(&pool, &cache, &batch, q.data(), heads, out.data());
  return out;
}

std::vector<float> tokens_of(const Wish& wish) {
  std::vector<float> tokens;
  for (int output = 0; output < 20; ++output) {
    auto logits = normals(1003);
    tokens.push_back(float(choose(logits.data(), 1003, wish, output).token));
  }
  return tokens;
}

int main(int, char** arguments) {
  std::FILE* file = std::fopen(arguments[1], "wb");
  auto write = [&](const std::vector<float>& x) {
    std::fwrite(x.data(), sizeof(float), x.size(), file);
  };
  write({float(legato_is_vectorised())});
  for (bool nibbles : {false, true})
    for (int rows : {1, 2, 3, 4, 5, 9, 17}) {
      write(project(70, 100, rows, nibbles));
      write(project(33, 32, rows, nibbles));
      if (nibbles) write(project(70, 96, rows, nibbles, true));
    }
  for (bool halves : {false, true})
    for (int dim : {24, 64, 128}) write(attend_to(dim, halves));
  for (const Wish& wish : {Wish{0, 1, 0, 0, 1}, Wish{1, 1, 0, 0, 2},
                           Wish{1, 0.9f, 0, 0, 3}, Wish{1, 0.9f, 0.01f, 40, 4}})
    write(tokens_of(wish));
  return std::fclose(file);
}
