// A step of nothing but decodes: from the tokens that slots sampled last to those that
// they sample next.
#pragma once
#include <algorithm>
#include <vector>

#include "draw.h"
#include "step.h"

// What the device keeps for each slot.
struct Slots {
  const int64_t* pages;  // [slots][most_pages]
  int64_t most_pages;
  int64_t* ends;           // [slots] positions so far
  const int64_t* room;     // [slots] positions that its pages hold
  const int64_t* prompts;  // [slots] positions of the prompt
  int64_t* future;         // [slots] the token sampled last
};

struct Decodes {
  Slots slots;
  const int64_t* rows;  // [count] slots
  const Wish* wishes;   // [count]
  int64_t count;
  int64_t* tokens;  // [count] those sampled
  float* peaks;     // [count] their logits
};

// Runs a step; returns the place of a row that has no room, and then does nothing, or -1.
inline int64_t decode(Decoder& decoder, const Decodes& to) {
  const Model& model = decoder.model();
  const Slots& slots = to.slots;
  int64_t count = to.count, page_size = model.cache.page_size, width = 0;
  for (int64_t row = 0; row < count; ++row) {
    int64_t slot = to.rows[row];
    if (slots.ends[slot] >= slots.room[slot]) return row;
    width = std::max(width, slots.ends[slot] / page_size + 1);
  }
  thread_local std::vector<int64_t> starts, ones, places, tables, cells;
  thread_local Lines<float> x, logits;
  starts.resize(size_t(count));
  cells.resize(size_t(count));
  ones.assign(size_t(count), 1);
  places.resize(size_t(count));
  tables.resize(size_t(count * width));
  x.resize(size_t(count * model.hidden));
  logits.resize(size_t(count * model.head.outs));
  for (int64_t row = 0; row < count; ++row) {
    int64_t slot = to.rows[row], start = slots.ends[slot]++;
    const int64_t* pages = slots.pages + slot * slots.most_pages;
    std::copy_n(pages, width, tables.data() + row * width);
    starts[size_t(row)] = start;
    places[size_t(row)] = row;
    cells[size_t(row)] = pages[start / page_size] * page_size + start % page_size;
    model.embedding.look_up(slots.future[slot], x.data() + row * model.hidden);
  }
  Batch batch{starts.data(), ones.data(), places.data(), tables.data(), count, width};
  decoder.forward({batch, count, count, true, starts.data(), cells.data(), places.data(),
                   x.data(), logits.data()});
  decoder.pool().run(count, [&, logits = logits.data()](int64_t row) {
    int64_t slot = to.rows[row], output = slots.ends[slot] - slots.prompts[slot];
    Likeliest found = choose(logits + row * model.head.outs, model.head.outs,
                             to.wishes[row], output);
    to.tokens[row] = slots.future[slot] = found.token;
    to.peaks[row] = found.peak;
  });
  return -1;
}
