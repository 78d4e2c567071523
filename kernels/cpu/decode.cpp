// Forward attention of few query rows against many keys. K and V are read once for config::pack_gqa query
// rows of their head (over the heads that share K and V and the rows of each), because memory bandwidth is
// the limit.
//
// A block is up to config::pack_gqa rows of one (batch, K/V head) against one part of the keys. The rows of K
// are multiplied as they are stored, along d: a vector of scores is `lanes / rows` keys by `rows` query rows,
// the sums of as many vectors of products. Where products are by element (product.h), a lane is a row, and
// more rows than lanes take several vectors.
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/decode_keys.h"
#include "kernels/cpu/decode_schedule.h"
#include "kernels/cpu/decode_values.h"
#include "kernels/cpu/flush_to_zero.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/key_ranges.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/cpu/scores.h"
#include "kernels/cpu/softmax.h"
#include "kernels/sink.h"

namespace regard {
namespace {

constexpr int rows = static_cast<int>(config::pack_gqa);
/// The vectors that hold the scores of a key's rows, if these do not share one with other keys.
constexpr int row_vectors = rows > lanes ? rows / lanes : 1;
constexpr int score_lanes = row_vectors * lanes;
constexpr int keys_per_vector = score_lanes / rows;
/// Handling keys one after the other reads memory in order, but the sums of few rows would then wait for
/// each other. With AVX-512 vectors a key has half as many parts, and reading in order is worth more
/// (docs/cpu-kernels.md).
constexpr int keys_at_once = lanes >= 16 || rows >= 4 ? 1 : keys_per_vector;
/// Keys are split into even and odd ones if the product with V takes pairs of them.
constexpr i64 chunk = ways * keys_per_vector;
constexpr i64 last_part = DepthParts::count - 1;
/// With a lane for each row, a pair of numbers of a key is multiplied with those of all rows, and no sums
/// over lanes are left, which took a third of the time.
constexpr bool lanes_are_rows = !uses_tiles && rows == lanes && !machine.by_element && vnni &&
                                row_type == config::dtype && config::d % 2 == 0;
/// The same with all numbers of a vector of K, each times the Q of all rows.
constexpr bool by_element = machine.by_element && rows >= lanes;
static_assert(by_element || rows <= lanes);
static_assert(decode_pack(machine).takes(rows) && decode_keys(machine).takes(config::block_k) &&
              !config::dropout);

template <int distance, int... lane>
REGARD_INLINE Floats merge_sums(Floats a, Floats b, Numbers<lane...>) {
  return __builtin_shufflevector(a, b, (lane & distance ? lanes + lane : lane)...) +
         __builtin_shufflevector(a, b, (lane & distance ? lanes + (lane ^ distance) : lane ^ distance)...);
}

/// The scores of the even keys of two vectors (which = 0), or of the odd ones.
template <int which, int... lane>
REGARD_INLINE Floats every_second_key(Floats a, Floats b, Numbers<lane...>) {
  return __builtin_shufflevector(a, b, ((lane / rows * 2 + which) * rows + lane % rows)...);
}

/// Lane i of the result is the sum of the lanes of vectors[i].
template <int count = lanes>
REGARD_INLINE Floats sums_of(Floats (&vectors)[lanes]) {
  if constexpr (count == 1) {
    return vectors[0];
  } else {
    REGARD_UNROLL
    for (int i = 0; i < count / 2; ++i)
      vectors[i] = merge_sums<count / 2>(vectors[i], vectors[i + count / 2], NumbersBelow<lanes>::type());
    return sums_of<count / 2>(vectors);
  }
}

template <int distance, int... lane>
REGARD_INLINE Floats swap_lanes(Floats x, Numbers<lane...>) {
  return __builtin_shufflevector(x, x, (lane ^ distance)...);
}

/// The maximum or the sum over the lanes of one query row, in all of these lanes.
template <int distance = rows>
REGARD_INLINE Floats max_of_row(Floats x) {
  if constexpr (distance >= lanes)
    return x;
  else
    return max_of_row<2 * distance>(max(x, swap_lanes<distance>(x, NumbersBelow<lanes>::type())));
}
template <int distance = rows>
REGARD_INLINE Floats sum_of_row(Floats x) {
  if constexpr (distance >= lanes)
    return x;
  else
    return sum_of_row<2 * distance>(x + swap_lanes<distance>(x, NumbersBelow<lanes>::type()));
}

class CpuDecodeHead {
 public:
  CpuDecodeHead(const CpuDecodeArguments& a, i64 batch, i64 kv_head, i64 row_block, i64 split, void* memory)
      : a_(a),
        heads_per_kv_(a.hq / a.hk),
        first_(a, batch, kv_head * heads_per_kv_),
        split_(split),
        first_row_(row_block * rows),
        scale_(a, factor_of_head(first_, a.descale_k)),
        keys_(first_, static_cast<u8*>(memory) + layout.total() - layout.tiles - layout.keys) {
    u8* at = static_cast<u8*>(memory);
    const auto take = [&at](i64 bytes) {
      at += bytes;
      return reinterpret_cast<float*>(at - bytes);
    };
    q_ = take(layout.q);
    output_ = take(layout.output);
    scores_ = take(layout.scores);
    earlier_ = take(layout.earlier);
    copied_rows_ = reinterpret_cast<float*>(static_cast<u8*>(memory) + layout.total() - layout.tiles);
    used_rows_ = smaller<i64>(heads_per_kv_ * first_.sequence.sq - first_row_, rows);
  }

  /// In memory that the caller has.
  static void* operator new(decltype(sizeof 0), void* memory) { return memory; }

  /// All keys of the part for `count` heads of one sequence. Each step is done for all of them before the
  /// next one, so what lies between the rows of one head is read while the processor has just looked up
  /// where.
  static void run(CpuDecodeHead* heads, i64 count) {
    const auto each = [=](const auto& use) {
      for (i64 i = 0; i < count; ++i) use(heads[i]);
    };
    if (heads->used_rows_ <= 0) return;
    each([](CpuDecodeHead& head) { head.start(); });
    const auto [begin, end] = heads->part_;
    const bool is_long = end - begin > long_chain;  // more keys than can be added one after the other
    if (is_long) each([](CpuDecodeHead& head) { EarlierSums(head.earlier_).clear(head.sums()); });
    for (i64 key = begin; key < end; key += long_chain) {
      walk(heads, count, key, smaller(key + long_chain, end));
      if (is_long) each([](CpuDecodeHead& head) { head.keep_sums(); });
    }
    if (is_long) each([](CpuDecodeHead& head) { EarlierSums(head.earlier_).take(head.sums()); });
    each([](CpuDecodeHead& head) { head.finish(); });
  }

 private:
  SoftmaxSums sums() { return {output_, sum_, maximum_, score_lanes, layout.output / 4}; }
  REGARD_NOINLINE void keep_sums() {
    EarlierSums(earlier_).add(sums(), scale_log2(), [](float* output, const float* factors) {
      if constexpr (uses_tiles)
        DecodeTiles::rescale(output, factors);
      else
        rescale_rows(output, rows, layout.output_stride, factors);
    });
  }

  /// All steps of the keys [begin, end), the first of which starts at `begin`. All heads see the same keys.
  static void walk(CpuDecodeHead* heads, i64 count, i64 begin, i64 end) {
    const FlushToZero mode;
    for (i64 key = begin; key < end; key += config::block_k) {
      const i64 step_end = smaller(key + config::block_k, end);
      if (!heads->visible_.sees_any(key, step_end)) continue;
      for (i64 i = 0; i < count; ++i) heads[i].step(key, step_end - key);
    }
  }

  /// The factor from scores to base-2 logarithms.
  float scale_log2() const { return scale_.in_softmax * log2_of_e; }

  void start() {
    lane_rows_.find(first_, first_row_, used_rows_);
    visible_.find(a_, first_.sequence, [this](i64 lane) { return lane_rows_.row[lane % rows]; });
    part_ = visible_.common.any;
    if (a_.splits > 1) {
      part_.begin = larger(part_.begin, split_ * a_.split_keys);
      part_.end = smaller(part_.end, (split_ + 1) * a_.split_keys);
    }
    part_.begin = part_.begin / config::block_k * config::block_k;
    __builtin_memset(q_, 0, layout.q);
    __builtin_memset(output_, 0, layout.output);
    for (i64 row = 0; row < used_rows_; ++row) {
      const u8* from = first_.q(lane_rows_.at(row));
      if constexpr (lanes_are_rows || uses_tiles) {
        store_query_in_lane(row, from);
        continue;
      }
      for (i64 part = 0; part < last_part; ++part) store_query<false>(row, from, part);
      store_query<true>(row, from, last_part);
    }
    for (int lane = 0; lane < score_lanes; ++lane) {
      const HeadRow head_row = lane_rows_.at(lane % rows);
      sink_[lane] = sink_of(a_, a_, head_row.head);
      maximum_[lane] = -infinity;
      sum_[lane] = 0;
      slope_[lane] = alibi ? lane_rows_.slope[lane % rows] : 0;
      key_of_lane_[lane] = ways * (lane / rows);
      diagonal_[lane] = static_cast<i32>(head_row.row + first_.sequence.bottom_right());
    }
  }

  /// The address of a part of Q's operands, `depth_vectors` vectors; by element, one for all rows.
  float* query(i64 row, i64 part) const { return q_ + row * layout.q_stride + part * depth_vectors * lanes; }
  template <bool last>
  void store_query(i64 row, const u8* from, i64 part) {
    Floats numbers[depth_vectors];
    load_depth<last, config::dtype>(numbers, from, part);
    for (int i = 0; i < depth_vectors; ++i) {
      if constexpr (by_element)
        for (int lane = 0; lane < lanes; ++lane)
          elements_of_queries(part)[(i * lanes + lane) * rows + row] = numbers[i][lane];
      else
        store(query(row, part) + i * lanes, numbers[i]);
    }
  }

  /// By element, Q of a part is stored as [number][row].
  float* elements_of_queries(i64 part) const { return q_ + part * depth_vectors * lanes * rows; }

  void store_query_in_lane(i64 row, const u8* from) {
    for (i64 pair = 0; pair < config::d / 2; ++pair)
      __builtin_memcpy(q_ + pair * lanes + row, from + pair * 4, 4);
  }

  REGARD_OPTIMIZE void step(i64 first_key, i64 count) {
    const i64 end = round_up(count, chunk);
    if (config::bits && !sees_bits(first_key, count)) return;
    keys_.start_step(first_, visible_.common, first_key, part_.end);
    const SeenKeys seen = seen_keys(visible_.common, first_key, first_key + count);
    if constexpr (row_factors) factors_.find(first_, first_key, seen);
    if constexpr (uses_tiles) {
      tiles_.find(keys_, counted_from(first_key, seen), copied_rows_);
      tiles_.compute_scores(scores_, q_);
    } else if constexpr (by_element)
      compute_scores_by_element(count);
    else if constexpr (lanes_are_rows)
      compute_scores_in_lanes(count);
    else
      compute_scores(count);

    const bool masked = !visible_.sees_all(first_key, first_key + end);
    if (masked || config::bits || row_factors || scale_.before != 1.0f || changes_scores)
      modify_scores(first_key, count, scale_.before, masked);

    float rescale[score_lanes];
    const bool changed = softmax(end / chunk, scale_log2(), rescale);
    if constexpr (uses_tiles)
      tiles_.add_values(output_, scores_, changed ? rescale : nullptr, keys_);
    else
      DecodeValues<rows>{output_, scores_, keys_.v, counted_from(first_key, seen),
                         changed ? rescale : nullptr}
          .add();
  }

  /// Scores of a step are stored as [chunk][way][score_lanes]: lane l of a way is query row l % rows and the
  /// chunk's key ways * (l / rows) + way.
  REGARD_OPTIMIZE void compute_scores(i64 count) {
    float* to = scores_;
    for (i64 key = 0; key < count; key += chunk, to += ways * lanes) {
      if constexpr (!lists_keys) fetch_ahead<chunk>(key);
      const Floats first = scores_of(key, count);
      if constexpr (ways == 1 || by_element) {
        store(to, first);
      } else {
        const Floats second = scores_of(key + keys_per_vector, count);
        store(to, every_second_key<0>(first, second, NumbersBelow<lanes>::type()));
        store(to + lanes, every_second_key<1>(first, second, NumbersBelow<lanes>::type()));
      }
    }
  }

  /// The same where a lane is a row and a vector a key. Keys past the last one are masked, but must be
  /// readable.
  REGARD_OPTIMIZE void compute_scores_in_lanes(i64 count) {
    constexpr int together = 8;  // additions to one sum would wait for each other
    constexpr i64 pairs = config::d / 2, pairs_of_line = 16;
    static_assert(config::block_k % together == 0);
    for (i64 key = 0; key < count; key += together) {
      const u8 *k[together], *next[together];
      Floats sums[together];
      REGARD_UNROLL
      for (int i = 0; i < together; ++i) {
        k[i] = keys_.k.row(smaller(key + i, count - 1));
        next[i] = keys_.k.ahead(key + i);
        sums[i] = Floats{};
      }
      for (i64 first = 0; first < pairs; first += pairs_of_line) {
        REGARD_UNROLL
        for (int i = 0; i < together; ++i) __builtin_prefetch(next[i] + first * 4, 0, 2);
        for (i64 pair = first; pair < smaller(first + pairs_of_line, pairs); ++pair) {
          const Floats q = load<Floats>(q_ + pair * lanes);
          REGARD_UNROLL
          for (int i = 0; i < together; ++i)
            sums[i] = multiply_add(sums[i], q, broadcast(load<float>(k[i] + pair * 4)));
        }
      }
      REGARD_UNROLL
      for (int i = 0; i < together; ++i) store(scores_ + (key + i) * lanes, sums[i]);
    }
  }

  /// The same where an element of K is multiplied by the Q of all rows. Keys past the last one are masked,
  /// but must be readable.
  REGARD_OPTIMIZE void compute_scores_by_element(i64 count) {
    constexpr int together = row_vectors * depth_vectors >= 4 ? 4 : 8;
    static_assert(config::block_k % together == 0);
    for (i64 key = 0; key < count; key += together) {
      const u8* k[together];
      REGARD_UNROLL
      for (int i = 0; i < together; ++i) k[i] = keys_.k.row(smaller(key + i, count - 1));
      fetch_ahead<together>(key);
      RegisterTile<together, row_vectors> sums;
      sums.clear();
      for (i64 part = 0; part < last_part; ++part) add_elements<false>(sums, k, part);
      add_elements<true>(sums, k, last_part);
      sums.store_to(scores_ + key * score_lanes, score_lanes);
    }
  }

  template <bool last, int together>
  REGARD_INLINE void add_elements(RegisterTile<together, row_vectors>& sums, const u8* const (&k)[together],
                                  i64 part) const {
    Floats numbers[together][depth_vectors];
    REGARD_UNROLL
    for (int i = 0; i < together; ++i) load_depth<last>(numbers[i], k[i], part);
    REGARD_UNROLL
    for (int vector = 0; vector < depth_vectors; ++vector) {
      Floats elements[together];
      REGARD_UNROLL
      for (int i = 0; i < together; ++i) elements[i] = numbers[i][vector];
      sums.add_elements(elements, elements_of_queries(part) + vector * lanes * rows, rows);
    }
  }

  /// Lane l is query row l % rows and key `key` + l / rows of the step.
  REGARD_INLINE Floats scores_of(i64 key, i64 count) const {
    Floats products[lanes];
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) products[i] = Floats{};
    REGARD_UNROLL
    for (int first = 0; first < keys_per_vector; first += keys_at_once) {
      const u8* k[keys_at_once];
      REGARD_UNROLL
      for (int i = 0; i < keys_at_once; ++i)  // keys past the last one are masked, but must be readable
        k[i] = keys_.k.row(smaller(key + first + i, count - 1));
      // Pages anywhere are fetched slowly: the core waits less if it asks for a row at a time.
      if constexpr (lists_keys) fetch_ahead<keys_at_once>(key + first);
      Floats* const sums = products + first * rows;
      if constexpr (target::avx2) {
        REGARD_UNROLL
        for (i64 part = 0; part < last_part; ++part) add_products<false>(sums, k, part);
      } else {  // if the loop is unrolled, g++ computes one sum after the other, each a chain of additions
        for (i64 part = 0; part < last_part; ++part) add_products<false>(sums, k, part);
      }
      add_products<true>(sums, k, last_part);
    }
    return sums_of(products);
  }

  template <bool last>
  REGARD_INLINE void add_products(Floats* sums, const u8* const (&k)[keys_at_once], i64 part) const {
    Floats keys[keys_at_once][depth_vectors];
    REGARD_UNROLL
    for (int i = 0; i < keys_at_once; ++i) load_depth<last>(keys[i], k[i], part);
    REGARD_UNROLL
    for (int vector = 0; vector < depth_vectors; ++vector) {
      REGARD_UNROLL
      for (int row = 0; row < rows; ++row) {
        const Floats q = load<Floats>(query(row, part) + vector * lanes);
        REGARD_UNROLL
        for (int i = 0; i < keys_at_once; ++i)
          sums[i * rows + row] = multiply_add(sums[i * rows + row], q, keys[i][vector]);
      }
    }
  }

  /// Prefetches K of later keys. (Inlined: g++ drops calls that only prefetch.)
  template <i64 keys>
  REGARD_INLINE void fetch_ahead(i64 key) const {
    REGARD_UNROLL
    for (i64 i = 0; i < keys; ++i) {
      const u8* k = keys_.k.ahead(key + i);
      REGARD_UNROLL
      for (i64 byte = 0; byte < DepthParts::row_bytes; byte += 64) __builtin_prefetch(k + byte, 0, 2);
    }
  }

  void modify_scores(i64 first_key, i64 count, float scale, bool masked) {
    float* score = scores_;
    for (i64 key = 0; key < count; key += chunk)
      for (int i = 0; i < ways * row_vectors; ++i, score += lanes) {
        const int way = i / row_vectors, lane = i % row_vectors * lanes;
        const i64 base = first_key + key + way;
        const Ints keys = load<Ints>(key_of_lane_ + lane) + static_cast<i32>(base);
        Floats bias{};
        if constexpr (elementwise_bias) bias = bias_of(base, lane);
        Floats s = load<Floats>(score), nothing{};
        if constexpr (row_factors) s *= factors_of(factors_.k + key, way);
        s *= scale;
        soften(a_, s, nothing);
        s = add_bias(s, bias, load<Floats>(slope_ + lane), load<Ints>(diagonal_ + lane) - keys);
        if (masked) s = select(visible_.visible(lane, keys), s, broadcast(-infinity));
        if constexpr (config::bits) s = select(bits_of(base, lane), s, broadcast(-infinity));
        store(score, s);
      }
  }

  /// The factors of the keys of a chunk, in the lanes of their scores.
  template <int way, int... lane>
  static REGARD_INLINE Floats factors_of(const float* factors, Numbers<lane...>) {
    return __builtin_shufflevector(load<Floats>(factors), load<Floats>(factors + lanes),
                                   (lane / rows * ways + way)...);
  }
  static REGARD_INLINE Floats factors_of(const float* factors, int way) {
    return way == 0 ? factors_of<0>(factors, NumbersBelow<lanes>::type())
                    : factors_of<ways - 1>(factors, NumbersBelow<lanes>::type());
  }

  /// The bias of the lanes [first_lane, first_lane + lanes).
  Floats bias_of(i64 first_key, int first_lane) const {
    Floats bias{};
    with_bias_type(a_, [&]<DType dtype>() {
      for (int lane = 0; lane < lanes; ++lane) {
        const i64 key = first_key + key_of_lane_[first_lane + lane];
        const HeadRow head_row = lane_rows_.at((first_lane + lane) % rows);
        if (key < first_.sequence.sk)
          bias[lane] = load_scalar<dtype>(first_.address<dtype>(a_.bias, head_row.head, head_row.row), key);
      }
    });
    return bias;
  }

  const u32* words_of(int row) const {
    return row_of<const u32>(a_.bits, first_.batch, lane_rows_.head[row], lane_rows_.row[row]);
  }
  Ints bits_of(i64 first_key, int first_lane) const {
    Ints visible{};
    for (int lane = 0; lane < lanes; ++lane) {
      const i64 key = first_key + key_of_lane_[first_lane + lane];
      if (key < first_.sequence.sk)
        visible[lane] = (words_of((first_lane + lane) % rows)[key / 32] >> (key % 32)) & 1 ? -1 : 0;
    }
    return visible;
  }
  bool sees_bits(i64 first_key, i64 count) const {
    for (int row = 0; row < used_rows_; ++row)
      for (i64 word = first_key / 32; word * 32 < first_key + count; ++word)
        if (words_of(row)[word]) return true;
    return false;
  }

  /// Replaces the scores by weights, as operands: [depth(key)][rows]. See softmax of forward.cpp. Works on
  /// the lanes from `lane` on.
  template <int lane = 0>
  bool softmax(i64 chunks, float scale_log2, float* rescale) {
    Floats largest = broadcast(-infinity);
    for (i64 i = 0; i < chunks * ways; ++i)
      largest = max(largest, load<Floats>(scores_ + lane + i * score_lanes));
    const Floats before = load<Floats>(maximum_ + lane);
    const Floats maximum = max(before, max_of_row(largest));
    const Floats zero = select(maximum == -infinity, Floats{}, maximum);
    const Floats factor = select(maximum == before, broadcast(1.0f), exp2((before - zero) * scale_log2));
    const Floats earlier = load<Floats>(sum_ + lane) * factor;
    Floats sum{};  // a separate sum (long_sum.h)
    for (i64 i = 0; i < chunks; ++i) {
      Floats p[ways];
      REGARD_UNROLL
      for (int way = 0; way < ways; ++way) {
        p[way] = exp2((load<Floats>(scores_ + lane + (i * ways + way) * score_lanes) - zero) * scale_log2);
        sum += p[way];
        if constexpr (row_factors) p[way] *= factors_of(factors_.v + i * chunk, way);
      }
      store(scores_ + lane + i * score_lanes, vnni ? pair_of(p[0], p[ways - 1]) : p[0]);
    }
    store(maximum_ + lane, maximum);
    store(sum_ + lane, earlier + sum);
    store(rescale + lane, factor);
    const bool changed = any(maximum != before);
    if constexpr (lane + lanes < score_lanes)
      return softmax<lane + lanes>(chunks, scale_log2, rescale) || changed;
    return changed;
  }

  /// The factors, the LSE and row_max of the rows from `lane` on.
  template <int lane = 0>
  REGARD_INLINE void end_rows(float* inverse, float* lse, float* row_max) const {
    const Floats maximum = load<Floats>(maximum_ + lane), sum = sum_of_row(load<Floats>(sum_ + lane));
    const CpuSoftmaxEnd end = end_softmax(maximum, sum, scale_.in_softmax, load<Floats>(sink_ + lane));
    store(inverse + lane, end.inverse * factor_of_head(first_, a_.descale_v));
    store(lse + lane, end.lse);
    store(row_max + lane, row_max_of(maximum, sum, scale_.in_softmax));
    if constexpr (lane + lanes < score_lanes) end_rows<lane + lanes>(inverse, lse, row_max);
  }

  void finish() {
    float inverse[score_lanes], lse[score_lanes], row_max[score_lanes];
    end_rows(inverse, lse, row_max);
    for (i64 r = 0; r < used_rows_; ++r) {
      const HeadRow head_row = lane_rows_.at(r);
      float output[layout.output_stride];
      if constexpr (uses_tiles)
        DecodeTiles::read_row(output, output_, r);
      else
        store_columns(output, output_ + r * layout.output_stride);
      if (a_.splits > 1) {
        const i64 row = first_.row_of_part(head_row, split_);
        store_row<DType::fp32, config::dv>(reinterpret_cast<u8*>(a_.partial_o + row * config::dv), output,
                                           inverse[r]);
        a_.partial_lse[row] = lse[r];
        if (a_.partial_row_max) a_.partial_row_max[row] = row_max[r];
      } else {
        store_row<config::out, config::dv>(first_.o(head_row), output, inverse[r]);
        if (a_.lse.data) *first_.lse(head_row) = lse[r];
        if (a_.row_max.data) *first_.row_max(head_row) = row_max[r];
      }
    }
  }

  const CpuDecodeArguments& a_;
  i64 heads_per_kv_;
  Head first_;  // the first query head of the K/V head
  i64 split_, first_row_, used_rows_;
  Range part_{};  // the keys, from the start of a step on
  CpuScoreScale scale_;
  DecodeKeys keys_;
  DecodeTiles tiles_;
  RowFactors<config::block_k> factors_;
  LaneRows<rows> lane_rows_;
  TileKeyRanges<score_lanes> visible_;
  float *q_, *output_, *scores_, *earlier_, *copied_rows_;
  // One lane per query row and key of a chunk, as in a vector of scores.
  float maximum_[score_lanes], sum_[score_lanes], sink_[score_lanes], slope_[score_lanes];
  i32 key_of_lane_[score_lanes], diagonal_[score_lanes];
};

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  const auto& a = static_cast<const CpuDecodeArguments&>(*arguments);
  const auto take = [&block](i64 count) {
    const i64 number = block % count;
    block /= count;
    return number;
  };
  // Rows are innermost, as they read the same part of K and V; then heads: in [b, s, h, d] tensors, the
  // heads of one part are on the same pages.
  const i64 row_block = take(ceil_divide(a.hq / a.hk * a.sq, rows));
  const i64 first_head = take(a.hk / a.heads) * a.heads, split = take(a.splits);

  [[maybe_unused]] const TileUnit<uses_tiles> unit;
  alignas(CpuDecodeHead) u8 memory[CpuDecodeSchedule::most_heads * sizeof(CpuDecodeHead)];
  auto* const heads = reinterpret_cast<CpuDecodeHead*>(memory);
  for (i64 i = 0; i < a.heads; ++i)
    new (heads + i) CpuDecodeHead(a, block, first_head + i, row_block, split,
                                  static_cast<u8*>(scratch) + i * layout.total());
  const bool heads_are_neighbours = a.k.head < a.k.row;  // rather than rows
  const i64 at_once = heads_are_neighbours ? a.heads : 1;
  for (i64 i = 0; i < a.heads; i += at_once) CpuDecodeHead::run(heads + i, at_once);
}
