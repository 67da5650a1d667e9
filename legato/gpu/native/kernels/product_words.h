// Many rows: weights as words of 16 bits, made once for all of them.
//
// An instruction multiplies two words of each of eight outputs by two activations and
// sums the pair. Three rows and 32 outputs share what is loaded: cores that take few
// instructions a cycle are bound by their number, whatever they are, and no other shape
// that fits into sixteen registers needs fewer.
#pragma once
#include "scales_x86.h"

constexpr int kWordsRows = 3, kPairs = kGroup / 2;

inline __m256i add_pair(__m256i sum, __m256i w, __m256i x) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return _mm256_dpwssd_epi32(sum, w, x);
#elif defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(sum, w, x);
#else
  return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
#endif
}

// A block's words, by pair in the order in which they are made.
template <bool nibbles>
struct Narrow {
  const uint8_t* block;

  // Of a quad numbers 0 and 2, then 1 and 3; of 4-bit blocks of two quads in turns.
  static constexpr int place(int pair) {
    return nibbles ? pair / 4 * 2 + pair % 2 * kQuads + pair / 2 % 2 : pair;
  }

  __m256i words(int pair, int side) const {
    constexpr int held = nibbles ? 4 : 2;  // by a word
    __m256i bytes = bytes_at(block + pair / held * kRowBytes + side * 32);
    if constexpr (nibbles) {
      if (pair % 4) bytes = _mm256_srli_epi16(bytes, pair % 4 * 4);
      return pair % 4 == 3 ? bytes : _mm256_and_si256(bytes, _mm256_set1_epi16(15));
    }
    if (pair % 2 == 0) bytes = _mm256_slli_epi16(bytes, 8);
    return _mm256_srai_epi16(bytes, 8);
  }
};

struct Wide {
  __m256i held[kPairs][kSides];

  static constexpr int place(int pair) { return pair; }
  __m256i words(int pair, int side) const { return held[pair][side]; }

  template <bool nibbles>
  void widen(const Narrow<nibbles>& narrow) {
#pragma GCC unroll 16
    for (int pair = 0; pair < kPairs; ++pair)
#pragma GCC unroll 4
      for (int side = 0; side < kSides; ++side)
        held[narrow.place(pair)][side] = narrow.words(pair, side);
  }
};

template <bool nibbles, int rows, typename Source>
inline void add_rows(const Source& w, const Scales& scales, const Activations& x,
                     int64_t at, float* sums) {
  const int16_t* values = x.q + at * kGroup;
  __m256i whole[rows][kSides] = {};
#pragma GCC unroll 16
  for (int pair = 0; pair < kPairs; ++pair) {
    __m256i words[kSides];
#pragma GCC unroll 4
    for (int side = 0; side < kSides; ++side) words[side] = w.words(pair, side);
#pragma GCC unroll 3
    for (int r = 0; r < rows; ++r) {
      __m256i two = four_of(values + r * kGroup + w.place(pair) * 2);
#pragma GCC unroll 4
      for (int side = 0; side < kSides; ++side) {
        whole[r][side] = add_pair(whole[r][side], words[side], two);
        // Else GCC multiplies a whole group first, keeps the products in memory, and
        // adds them at the end.
        asm("" : "+x"(whole[r][side]));
      }
    }
  }
#pragma GCC unroll 3
  for (int r = 0; r < rows; ++r) {
    __m256 x_scale = _mm256_set1_ps(x.measures[at + r].scale);
    __m256 x_sum = _mm256_set1_ps(x.measures[at + r].sum);
#pragma GCC unroll 4
    for (int side = 0; side < kSides; ++side)
      scales.add<nibbles>(whole[r][side], side, x_scale, x_sum, sums + r * kTile);
  }
}

template <bool nibbles, typename Source>
inline void add_all_rows(const Source& w, const Scales& scales, const Activations& x,
                         int64_t group, float* sums) {
  int64_t row = 0, at = x.place(group, 0);
  for (; row + kWordsRows <= x.rows; row += kWordsRows)
    add_rows<nibbles, kWordsRows>(w, scales, x, at + row, sums + row * kTile);
  if (x.rows - row == 2)
    add_rows<nibbles, 2>(w, scales, x, at + row, sums + row * kTile);
  if (x.rows - row == 1)
    add_rows<nibbles, 1>(w, scales, x, at + row, sums + row * kTile);
}

template <bool nibbles>
void add_words(const uint8_t* block, const Scales& scales, const Activations& x,
               int64_t group, float* sums) {
  Narrow<nibbles> narrow{block};
  // Of nibbles few rows are multiplied as planes.
  if (!nibbles && x.rows <= kWordsRows)
    return add_all_rows<nibbles>(narrow, scales, x, group, sums);
  Wide wide;
  wide.widen(narrow);
  add_all_rows<nibbles>(wide, scales, x, group, sums);
}
