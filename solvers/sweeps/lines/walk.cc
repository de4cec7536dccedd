// Folds and showdowns of lines of betting on boards of five cards: `ends.py` has the same in XLA.
//
// The other's hands are walked in order of strength with sums of their reach, of all of them and of
// those that hold each card. A hand of one's own wins what lies below, less those with its cards.
// A sum is a vector over kLines lines; each is added up in one order on every machine.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using S32 = ffi::Buffer<ffi::S32>;

namespace {

constexpr int64_t kLines = 16, kCards = 52;
typedef float Row __attribute__((vector_size(64)));  // of kLines lines
typedef float Four __attribute__((vector_size(16)));
#ifdef __clang__
#define PICK(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int32_t Places __attribute__((vector_size(16)));
#define PICK(x, y, ...) __builtin_shuffle(x, y, Places{__VA_ARGS__})
#endif

// Copies rows to columns, from `[rows, columns]` with `stride` to the transpose with `to_stride`.
void turn(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
          int64_t to_stride) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      Four x[4];
      for (int i = 0; i < 4; ++i) std::memcpy(&x[i], from + (r + i) * stride + c, sizeof x[i]);
      const Four p = PICK(x[0], x[1], 0, 4, 1, 5), q = PICK(x[0], x[1], 2, 6, 3, 7);
      const Four s = PICK(x[2], x[3], 0, 4, 1, 5), t = PICK(x[2], x[3], 2, 6, 3, 7);
      const Four y[4] = {PICK(p, s, 0, 1, 4, 5), PICK(p, s, 2, 3, 6, 7), PICK(q, t, 0, 1, 4, 5),
                         PICK(q, t, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i) std::memcpy(to + (c + i) * to_stride + r, &y[i], sizeof y[i]);
    }
    for (; c < columns; ++c)
      for (int i = 0; i < 4; ++i) to[c * to_stride + r + i] = from[(r + i) * stride + c];
  }
  for (; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * stride + c];
}

// One board's hands, the other's and one's own, as `ends.Walk` has them.
struct Board {
  const int32_t *order, *strength, *own_order, *own_strength, *held, *cards, *twin;
  const float *weight, *size;
  int64_t others, owns, most;
};

// Computes `values` [owns] of kLines lines from `reach` [others]; `shows` and `folds` are what wins
// less losses, and all hands that share no card, are worth. `sums` [kCards] is scratch. Plain: every
// class is one hand of two cards.
template <bool plain>
void walk(const Board b, const Row* reach, const Row shows, const Row folds, bool any_shows,
          Row* values, Row* sums) {
  Row all = {};
  std::fill_n(sums, kCards, all);
  auto count = [&](int64_t j) {
    const Row x = reach[j];
    all += plain ? x : x * b.size[j];
    const int64_t first = j * b.most;
    for (int64_t k = first; k < first + (plain ? 2 : b.most); ++k)
      sums[b.held[k]] += plain ? x : x * b.weight[k];
  };
  auto apart = [&](int64_t h) { return all - sums[b.cards[2 * h]] - sums[b.cards[2 * h + 1]]; };
  int64_t j = 0;
  for (int64_t i = 0, tie; any_shows && i < b.owns; i = tie) {
    const int32_t strength = b.own_strength[i];
    for (; j < b.others && b.strength[j] < strength; ++j) count(b.order[j]);
    for (tie = i; tie < b.owns && b.own_strength[tie] == strength; ++tie)
      values[b.own_order[tie]] = apart(b.own_order[tie]);
    for (; j < b.others && b.strength[j] == strength; ++j) count(b.order[j]);
    for (int64_t k = i; k < tie; ++k) values[b.own_order[k]] += apart(b.own_order[k]);
  }
  for (; j < b.others; ++j) count(b.order[j]);
  for (int64_t h = 0; h < b.owns; ++h) {
    const Row x = apart(h);
    // Those below a tie, and up to it, are wins less losses and all.
    const Row won = any_shows ? shows * (values[h] - x) : Row{};
    values[h] = won + folds * (b.twin[h] < b.others ? x + reach[b.twin[h]] : x);
  }
}

ffi::Error run(F32 reach, F32 shows, F32 folds, S32 order, S32 strength, S32 own_order,
               S32 own_strength, S32 held, F32 weight, F32 size, S32 cards, S32 twin,
               ffi::Result<F32> values) {
  auto back = [](const auto& x, int i) { return x.dimensions()[x.dimensions().size() - i]; };
  const int64_t lines = back(reach, 3), boards = back(reach, 2), others = back(reach, 1);
  const int64_t owns = back(cards, 2), most = back(held, 1);
  if (!lines || !boards || !others || !owns) return ffi::Error::Success();
  if (back(order, 1) != others || back(own_order, 1) != owns)
    return ffi::Error::InvalidArgument("orders and reach are of other hands");
  const int64_t lanes = reach.element_count() / (lines * boards * others);
  const int64_t own = back(held, 3);  // boards with cards of their own: all, or one for all
  std::vector<Row> space(others + owns + kCards);
  Row *in = space.data(), *out = in + others, *sums = out + owns;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    auto at = [lane](const auto& x, int64_t number, int64_t start = 0) {
      return x.typed_data() + lane * number + start;
    };
    for (int64_t b = 0; b < boards; ++b) {
      const Board board{at(order, boards * others, b * others),
                        at(strength, boards * others, b * others),
                        at(own_order, boards * owns, b * owns),
                        at(own_strength, boards * owns, b * owns),
                        at(held, own * others * most, b % own * others * most),
                        at(cards, own * owns * 2, b % own * owns * 2),
                        at(twin, own * owns, b % own * owns),
                        at(weight, own * others * most, b % own * others * most),
                        at(size, own * others, b % own * others),
                        others, owns, most};
      for (int64_t first = 0; first < lines; first += kLines) {
        const int64_t number = std::min(kLines, lines - first);
        Row show = {}, fold = {};
        std::memcpy(&show, at(shows, lines, first), number * sizeof(float));
        std::memcpy(&fold, at(folds, lines, first), number * sizeof(float));
        bool any_shows = false;
        for (int64_t l = 0; l < number; ++l) any_shows |= show[l] != 0;
        if (number < kLines) std::fill_n(in, others, Row{});
        const int64_t row = (lane * lines + first) * boards + b;
        turn(reach.typed_data() + row * others, boards * others, number, others,
             reinterpret_cast<float*>(in), kLines);
        (most == 2 ? walk<true> : walk<false>)(board, in, show, fold, any_shows, out, sums);
        turn(reinterpret_cast<float*>(out), kLines, owns, number,
             values->typed_data() + row * owns, boards * owns);
      }
    }
  }
  return ffi::Error::Success();
}

}  // namespace

#define OF(type) Arg<type>()
XLA_FFI_DEFINE_HANDLER_SYMBOL(walk_lines, run,
                              ffi::Ffi::Bind().OF(F32).OF(F32).OF(F32).OF(S32).OF(S32).OF(S32)
                                  .OF(S32).OF(S32).OF(F32).OF(F32).OF(S32).OF(S32)
                                  .Ret<F32>());
