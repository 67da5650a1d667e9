// What Python calls. Structures are mirrored in structures.py.
#include "decodes.h"
#include "stored.h"

extern "C" {

// Whether products were written for this processor, not left to the compiler.
int64_t legato_is_vectorised() { return kVectorised; }

int64_t legato_fits_nibbles(const float* w, int64_t outs, int64_t ins) {
  return fits_nibbles(w, outs, ins);
}

void legato_pack(const float* w, const Weights* to, uint8_t* blocks) {
  pack(w, *to, blocks);
}

void legato_pack_stored(const uint8_t* from, int64_t kind, int64_t rows,
                        const Weights* to, uint8_t* blocks, int64_t first) {
  pack_stored(from, kind, rows, *to, blocks, first);
}

// out[rows][ins]: the matrix's own rows, chosen by number.
void legato_unpack(const Weights* w, const int64_t* chosen, int64_t rows, float* out) {
  for (int64_t row = 0; row < rows; ++row) unpack(*w, chosen[row], out + row * w->ins);
}

Pool* legato_open_pool(int64_t num_threads) { return new Pool(int(num_threads)); }
void legato_close_pool(Pool* pool) { delete pool; }

// out[rows][outs] (+)= x[rows][ins] through the weights.
void legato_project(Pool* pool, const Weights* w, const float* x, int64_t rows,
                    float* out, int64_t add) {
  ActivationStore store;
  store.reserve(rows, w->ins);
  Activations quantized = store.rows(rows, w->groups(), form_of(*w, rows));
  pool->run(rows, [&](int64_t row) { quantized.quantize(row, x + row * w->ins, w->ins); });
  product(*pool, *w, quantized, {out, w->outs, add != 0});
}

void legato_attend(Pool* pool, const Cache* cache, const Batch* batch, const float* q,
                   int64_t heads, float* out) {
  attend(*pool, *cache, *batch, q, heads * cache->head_dim, heads, out);
}

Decoder* legato_open(const Model* model, int64_t num_threads) {
  return new Decoder(*model, int(num_threads));
}
void legato_forward(Decoder* decoder, const Step* step) { decoder->forward(*step); }
int64_t legato_decode(Decoder* decoder, const Decodes* decodes) {
  return decode(*decoder, *decodes);
}
// Chooses tokens[count] for rows of logits[][vocab], which are changed.
void legato_choose(Decoder* decoder, float* logits, const int64_t* rows,
                   const Wish* wishes, const int64_t* outputs, int64_t count,
                   int64_t* tokens) {
  int64_t vocab = decoder->model().head.outs;
  decoder->pool().run(count, [&](int64_t i) {
    tokens[i] = choose(logits + rows[i] * vocab, vocab, wishes[i], outputs[i]).token;
  });
}
void legato_close(Decoder* decoder) { delete decoder; }
}
