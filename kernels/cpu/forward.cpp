// Forward attention: O = softmax(scale Q K^T) V, tiled, with an online softmax; no sq x sk array anywhere.
//
// A block is up to config::block_q query rows of one (batch, head), or of heads that share K and V and have
// few rows each (scores.h), against one part of the keys. It walks the keys in steps of config::block_k,
// packing V of each step, and K too unless its layout can be used directly (forward_pack.h); each tile of 64
// query rows computes
//   scores   S^T[key][row] = K Q^T      lanes are query rows, so that softmax needs no sum across lanes
//   softmax  P^T[key][row], running maximum and sum of each row
//   values   O[row][column] += P V      lanes are columns, so that O has the layout in which it is stored
// With AMX, O is transposed too, until it is stored (forward_amx.h).
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/flush_to_zero.h"
#include "kernels/cpu/forward_amx.h"
#include "kernels/cpu/forward_keys.h"
#include "kernels/cpu/forward_p.h"
#include "kernels/cpu/forward_pack.h"
#include "kernels/cpu/forward_schedule.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/softmax.h"
#include "kernels/sink.h"

namespace regard {
namespace {

constexpr TileRules rules = forward_rules(machine);
static_assert(rules.block_q.takes(config::block_q) && rules.block_k.takes(config::block_k));
static_assert(!amx || lanes * width <= config::block_k * tile,
              "rows of O are transposed in the memory of scores");
static_assert(!amx || depth(config::block_k) + chunk <= config::block_k, "P and a chunk of scores lie there");

/// Whether memory is prefetched. The hardware prefetcher of a core with AMX finds what bf16 reads, and
/// software prefetches slow it down (docs/cpu-kernels.md).
constexpr bool prefetches = !amx || pieces == 2;

constexpr i64 key_part = part_of_keys(config::block_k);

/// S^T of tile_rows keys and `vectors` vectors of rows, and the maximum of each row if `maximum` is not
/// null.
template <int vectors>
REGARD_OPTIMIZE void multiply_keys(float* scores, const float* keys, const float* q, float* maximum) {
  constexpr i64 key_stride = depth(config::d);
  RegisterTile<tile_rows, vectors> product;
  product.clear();
  product.add_product(keys, key_stride, 1, q, tile, key_stride);
  product.store_to(scores, tile);
  if (maximum) raise_maximum(maximum, product);
}

/// multiply_keys for the rows of these strips.
void multiply_strips(float* scores, const float* keys, const float* q, Range rows, float* maximum) {
  constexpr i64 panel = tile_vectors * lanes;
  static_assert(strip % panel == 0 || (strip == lanes && panel <= 4 * strip));
  const auto multiply = [&]<int vectors>(i64 lane) {
    multiply_keys<vectors>(scores + lane, keys, q + place(lane), maximum ? maximum + lane : nullptr);
  };
  i64 lane = rows.begin * strip;
  const i64 end = rows.end * strip;
  for (; lane + panel <= end; lane += panel) multiply.template operator()<tile_vectors>(lane);
  if constexpr (panel > strip) {
    switch ((end - lane) / strip) {
      case 1:
        return multiply.template operator()<1>(lane);
      case 2:
        return multiply.template operator()<2>(lane);
      case 3:
        return multiply.template operator()<3>(lane);
    }
  }
}

/// The learned sinks of the rows in the lanes [lane, lane + lanes).
REGARD_INLINE Floats sinks_of(const CpuForwardArguments& a, const QueryTile& rows, i64 lane) {
  Floats sinks = broadcast(sink_of(a, a, rows.lane_rows.head[0]));
  if (a.sink && !rows.lane_rows.of_one_head())
    for (i64 i = 0; i < lanes; ++i) sinks[i] = sink_of(a, a, rows.lane_rows.head[lane + i]);
  return sinks;
}

/// Divides by the sum and stores to O and LSE or, for one part of the keys, to the workspace. `natural`
/// converts scores to natural units. `transposed`: memory for `lanes` rows.
REGARD_NOINLINE void store_tile(const CpuForwardArguments& a, const Head& head, const QueryTile& rows,
                                i64 split, float natural, float* transposed) {
  if (!rows.started) __builtin_memset(rows.output, 0, tile * width * 4);
  const float factor = a.dropout_scale * factor_of_head(head, a.descale_v);
  float inverse[tile], lse[tile], row_max[tile];
  for (i64 lane = 0; lane < tile; lane += lanes) {
    const CpuSoftmaxEnd end = end_softmax(load<Floats>(rows.row_max + lane), load<Floats>(rows.sum + lane),
                                          natural, sinks_of(a, rows, lane));
    store(inverse + lane, end.inverse * factor);
    store(lse + lane, end.lse);
    store(row_max + lane,
          row_max_of(load<Floats>(rows.largest + lane), load<Floats>(rows.sum + lane), natural));
  }
  for (i64 i = 0; i < rows.rows; ++i) {
    const HeadRow row = rows.lane_rows.at(i);
    const float* output = rows.output + i * width;
    if constexpr (amx) {
      if (i % lanes == 0) transpose_tiles<width>(transposed, rows.output, output_tiles, i);
      output = transposed + i % lanes * width;
    }
    if (a.splits > 1) {
      const i64 row_index = head.row_of_part(row, split);
      store_row<DType::fp32, config::dv>(reinterpret_cast<u8*>(a.partial_o + row_index * config::dv), output,
                                         inverse[i]);
      a.partial_lse[row_index] = lse[i];
      if (a.partial_row_max) a.partial_row_max[row_index] = row_max[i];
    } else {
      store_row<config::out, config::dv>(head.o(row), output, inverse[i]);
      if (a.lse.data) *head.lse(row) = lse[i];
      if (a.row_max.data) *head.row_max(row) = row_max[i];
    }
  }
}

/// The rows and the part of the keys of a block, and the first head of these rows.
struct CpuForwardWork {
  i64 batch, head, first_row, end_row, split;

  CpuForwardWork(const CpuForwardArguments& a, i64 block) {
    const i64 row_blocks = ceil_divide(a.sq * a.pack_gqa, a.block_rows);
    const i64 groups = a.hq / a.pack_gqa;
    split = block % a.splits;
    block /= a.splits;
    i64 row_block, part = 0, rows = a.block_rows;
    if (const i64 split_block = block - a.whole_blocks; split_block >= 0) {
      const i64 parts = ceil_divide(a.block_rows, a.part_rows);
      block = a.whole_blocks + split_block / parts;
      part = split_block % parts;
      rows = a.part_rows;
    }
    if (config::mask != Mask::none && a.positional) {
      // Under a causal mask the last rows see the most keys: they run first, so that no thread is left with
      // one at the end.
      row_block = row_blocks - 1 - block / (a.b * groups);
      block %= a.b * groups;
    } else {
      row_block = block % row_blocks;
      block /= row_blocks;
    }
    first_row = row_block * a.block_rows + part * a.part_rows;
    end_row = smaller(first_row + rows, (row_block + 1) * a.block_rows);
    batch = block / groups;
    head = block % groups * a.pack_gqa;
  }
};

/// The scratch memory of a thread, divided into its parts.
struct Scratch {
  PackedStep step;
  float *scores, *p, *bias;
  u8 *gathered_keys, *gathered_values;
  float *q, *output;  // of the first tile
  float* earlier;     // likewise, if there are that many keys

  explicit Scratch(void* memory) {
    u8* at = static_cast<u8*>(memory);
    const auto take = [&at](i64 bytes) {
      at += bytes;
      return reinterpret_cast<float*>(at - bytes);
    };
    step.keys = take(layout.keys);
    step.values = take(layout.values);
    scores = take(layout.scores);
    p = take(layout.p);
    bias = take(layout.bias);
    gathered_keys = reinterpret_cast<u8*>(take(layout.gathered_keys));
    gathered_values = reinterpret_cast<u8*>(take(layout.gathered_values));
    q = take(layout.q * layout.tiles);
    output = take(layout.output * layout.tiles);
    earlier = reinterpret_cast<float*>(at);
  }
};

class CpuForwardBlock {
 public:
  CpuForwardBlock(const CpuForwardArguments& a, const CpuForwardWork& work, void* memory)
      : a_(a),
        head_(head_of(a, work.batch, work.head)),
        random_(random_of(head_)),
        split_(work.split),
        scale_(a, factor_of_head(head_, a.descale_k)),
        scratch_(memory),
        keys_(head_, scratch_.gathered_keys, scratch_.gathered_values) {
    const i64 rows = smaller(work.end_row, head_.sequence.sq * a.pack_gqa) - work.first_row;
    for (; tile_count_ * tile < rows; ++tile_count_)
      start(tiles_[tile_count_], work.first_row + tile_count_ * tile,
            smaller(tile, rows - tile_count_ * tile));
    common_ = {{head_.sequence.sk, 0}, {0, 0}, {0, head_.sequence.sk}};
    for (i64 t = 0; t < tile_count_; ++t) {
      const CommonKeys& of_tile = tiles_[t].visible.common;
      common_.any = {smaller(common_.any.begin, of_tile.any.begin), larger(common_.any.end, of_tile.any.end)};
      common_.between = {larger(common_.between.begin, of_tile.between.begin),
                         smaller(common_.between.end, of_tile.between.end)};
    }
  }

  void run(i64 next_block) {
    auto [begin, end] = common_.any;
    if (a_.splits > 1) {
      begin = larger(begin, split_ * a_.split_keys);
      end = smaller(end, (split_ + 1) * a_.split_keys);
    }
    begin = begin / config::block_k * config::block_k;
    if (is_long_sum(begin, end, key_part))
      walk_long_sum(begin, end, next_block);
    else
      walk(begin, end, next_block);
    for (i64 t = 0; t < tile_count_; ++t) {
      store_tile(a_, head_, tiles_[t], split_, scale_.in_softmax, scratch_.scores);
      if (config::dropout && a_.dropout_mask.data)
        write_dropout_mask(head_, random_, tiles_[t].lane_rows.row[0], tiles_[t].rows);
    }
  }

 private:
  /// More keys than can be summed in one chain.
  REGARD_NOINLINE void walk_long_sum(i64 begin, i64 end, i64 next_block) {
    for (i64 t = 0; t < tile_count_; ++t) earlier(t).clear(sums_of(tiles_[t]));
    for_parts(begin, end, key_part, [&](i64 part_begin, i64 part_end) {
      walk(part_begin, part_end, next_block);
      for (i64 t = 0; t < tile_count_; ++t)
        if (tiles_[t].started) earlier(t).add(sums_of(tiles_[t]), scale_log2(), rescale_sums);
    });
    for (i64 t = 0; t < tile_count_; ++t)
      if (tiles_[t].started) earlier(t).take(sums_of(tiles_[t]));
  }
  EarlierSums earlier(i64 t) const { return EarlierSums(scratch_.earlier + t * layout.earlier() / 4); }
  static SoftmaxSums sums_of(QueryTile& rows) {
    return {rows.output, rows.sum, rows.row_max, tile, layout.output / 4};
  }
  static void rescale_sums(float* output, const float* factors) {
    if constexpr (amx)
      rescale_output(output, factors);
    else
      rescale_rows(output, tile, width, factors);
  }

  /// All steps of the keys [begin, end), the first of which starts at `begin`.
  void walk(i64 begin, i64 end, i64 next_block) {
    const FlushToZero mode;
    [[maybe_unused]] bool near_end = false;
    for (i64 key = begin; key < end; key += config::block_k) {
      if constexpr (prefetches) {
        fetch_keys(head_, common_, key + config::block_k, end);
        // The last step may be too short to prefetch everything that the next block starts with.
        if (!near_end && key + 2 * config::block_k >= end) {
          fetch_block(next_block);
          near_end = true;
        }
      }
      step(key, end);
    }
  }

  void start(QueryTile& rows, i64 first_row, i64 count) {
    rows.rows = count;
    rows.started = false;
    rows.q = scratch_.q + tile_count_ * layout.q / 4;
    rows.output = scratch_.output + tile_count_ * layout.output / 4;
    rows.lane_rows.find(head_, first_row, count);
    rows.visible.find(a_, head_.sequence, [&](i64 lane) { return rows.lane_rows.row[lane]; });
    rows.packed = false;
    for (i64 lane = 0; lane < tile; lane += lanes) {
      store(rows.row_max + lane, broadcast(-infinity));
      store(rows.largest + lane, broadcast(-infinity));
      store(rows.sum + lane, Floats{});
    }
  }

  /// Prefetches K and V of the step at `key`, up to `end`.
  REGARD_NOINLINE void fetch_keys(const Head& head, const CommonKeys& common, i64 key, i64 end) {
    end = smaller(key + config::block_k, end);
    // In rows that are not gathered, those between the sink tokens and the window are not worth a second
    // range.
    ForwardKeys::fetch(prefetcher_, head,
                       gathers ? seen_keys(common, key, end) : SeenKeys{{{key, end}, {0, 0}}});
  }
  /// Prefetches Q from a row on, up to the end of its head.
  REGARD_NOINLINE void fetch_queries(const Head& head, HeadRow first) {
    constexpr i64 bytes = bytes_of<config::dtype>;
    prefetcher_.add_first(head.q(first), a_.q.row * bytes, config::d * bytes,
                          smaller(tile, head.sequence.sq - first.row));
  }

  /// Prefetches O of a tile, up to the end of its head.
  REGARD_NOINLINE void fetch_output(const QueryTile& rows) {
    constexpr i64 bytes = bytes_of<config::out>;
    const HeadRow first = rows.lane_rows.at(0);
    prefetcher_.add_first(head_.o(first), a_.o.row * bytes, config::dv * bytes,
                          smaller(rows.rows, head_.sequence.sq - first.row));
  }

  /// Prefetches what another block, if there is one, starts with.
  REGARD_NOINLINE void fetch_block(i64 block) {
    const CpuForwardWork work(a_, block);
    if (work.batch >= a_.b || work.first_row < 0) return;
    const Head head = head_of(a_, work.batch, work.head);
    if (work.first_row >= head.sequence.sq * a_.pack_gqa) return;
    const HeadRow first = row_by_number(head, work.first_row);  // other heads' windows may begin earlier
    const VisibleKeys seen = visible_keys(a_, head.sequence, first.row);
    i64 begin = seen.first();
    if (a_.splits > 1) begin = larger(begin, work.split * a_.split_keys);
    const CommonKeys common{
        {begin, larger(seen.window.end, seen.sinks.end)}, {0, 0}, {seen.sinks.end, seen.window.begin}};
    fetch_keys(head, common, begin / config::block_k * config::block_k, head.sequence.sk);
    fetch_queries(head, first);
  }

  /// Packs Q of a tile as an operand.
  REGARD_NOINLINE void pack_queries(QueryTile& rows) {
    constexpr i64 panel = amx ? 16 : tile, bytes = config::d * bytes_of<config::dtype>;
    rows.packed = true;
    if (pieces == 1 && rows.lane_rows.of_one_head())
      return pack_transposed_panels<config::d, tile, panel>(rows.q, head_.q(rows.lane_rows.at(0)), a_.q.row,
                                                            rows.rows);
    // Rows of several heads are gathered first, and so are numbers in two pieces.
    constexpr i64 apart = pieces == 1 ? config::d : 2 * depth(config::d);
    static_assert(pieces * lanes * apart * bytes_of<config::dtype> <= layout.scores);
    u8* const together = reinterpret_cast<u8*>(scratch_.scores);
    u8* const low = together + lanes * apart * bytes_of<config::dtype>;
    for (i64 lane = 0; lane < tile; lane += lanes) {
      const i64 count = larger<i64>(0, smaller<i64>(lanes, rows.rows - lane));
      for (i64 i = 0; i < count; ++i) {
        const i64 at = i * apart * bytes_of<config::dtype>;
        const u8* const q = head_.q(rows.lane_rows.at(lane + i));
        if constexpr (pieces == 2)
          split_rows<config::d, apart>(reinterpret_cast<u16*>(together + at),
                                       reinterpret_cast<u16*>(low + at), q, 0, 1);
        else
          __builtin_memcpy(together + at, q, bytes);
      }
      float* const to = rows.q + lane / panel * panel * depth(config::d) + place(lane % panel);
      pack_transposed_lanes<apart, panel>(to, together, apart, count);
      if constexpr (pieces == 2) pack_transposed_lanes<apart, panel>(to + low_queries, low, apart, count);
    }
  }

  /// The keys [first_key, first_key + block_k), up to `end`.
  void step(i64 first_key, i64 end) {
    end = smaller(end, first_key + config::block_k);
    Range needed{0, 0};
    for (i64 t = 0; t < tile_count_; ++t) needed.join(keys_of(tiles_[t], first_key, end));
    bool packed = false;
    for (i64 t = 0; t < tile_count_; ++t) {
      QueryTile& rows = tiles_[t];
      const Range keys = keys_of(rows, first_key, end);
      if (keys.empty()) continue;
      ForwardScoreTile part;
      part.scores = scratch_.scores;
      part.lane_rows = &rows.lane_rows;
      part.first_key = first_key;
      part.begin = keys.begin;
      part.end = keys.end;
      part.factors = &factors_;
      if constexpr (config::bits) {
        if (!load_bits(head_, part)) continue;
      }
      if (!packed) operands_ = operands(first_key, needed);
      packed = true;
      if (!rows.packed) {
        pack_queries(rows);
        if (prefetches && t + 1 < tile_count_) fetch_queries(head_, tiles_[t + 1].lane_rows.at(0));
      }
      if (prefetches && part.first_key + config::block_k >= rows.visible.common.any.end && a_.splits <= 1)
        fetch_output(rows);
      add(rows, part);
    }
  }

  /// The keys of [first_key, end) that a tile computes, counted from the first.
  static Range keys_of(const QueryTile& rows, i64 first_key, i64 end) {
    const Range seen = rows.visible.seen(first_key, end);
    if (seen.empty()) return {0, 0};
    return {(seen.begin - first_key) / key_step * key_step, round_up(seen.end - first_key, key_step)};
  }

  StepOperands operands(i64 first_key, Range needed) {
    const PackedStep& packed = scratch_.step;
    const i64 exist = smaller(config::block_k, head_.sequence.sk - first_key);
    const SeenKeys seen = seen_keys(common_, first_key, first_key + exist);
    const StepRows rows = keys_.of_step(head_, first_key, exist, seen);
    if constexpr (row_factors) factors_.find(head_, first_key, seen);
    pack_step(packed, rows, exist, needed, scratch_.scores);
    if (a_.cache.present && !keys_.gathered(rows))
      clear_unseen(packed.values, {needed.begin, smaller(needed.end, exist)}, counted_from(first_key, seen));
    if (keys_in_place(rows, exist))
      return {reinterpret_cast<const float*>(rows.k), rows.k_row * bytes_of<config::dtype> / 4,
              packed.values};
    return {packed.keys, depth(config::d), packed.values};
  }

  /// One tile of rows against the keys of one step.
  void add(QueryTile& rows, ForwardScoreTile& part) {
    if (elementwise_bias) load_bias(head_, part, scratch_.bias);
    if constexpr (amx) return add_in_chunks(rows, part);
    const StepKeyRanges ranges(rows.visible, part.first_key, part.begin, part.end);
    alignas(64) float maximum[tile], rescale[tile];
    for (i64 lane = 0; lane < tile; lane += lanes) store(maximum + lane, broadcast(-infinity));
    bool p_made = false, changed = false;
    if (makes_p_beside_products && !masks(rows, part, part.begin, part.begin + key_step))
      p_made = make_p_beside_products(rows, part, ranges, maximum);
    else
      compute_scores(rows, part, ranges, maximum);
    if (a_.row_max.data) raise_largest(rows, maximum);
    if (!p_made)
      changed = softmax(a_, random_, rows, part, ranges, maximum, scale_log2(),
                        quads ? scratch_.p : part.scores, rescale);
    add_values<tile>({rows.output, p_made || quads ? scratch_.p : part.scores, operands_.values, rows.started,
                      changed ? rescale : nullptr, ranges.values});
    rows.started = true;
  }

  /// S^T, the maximum of each row, and at the same time scratch_.p. False: there are no weights, because
  /// scores rose too far above row_max, which for a tile's first step is the maximum over its first block.
  REGARD_NOINLINE bool make_p_beside_products(QueryTile& rows, const ForwardScoreTile& part,
                                              const StepKeyRanges& ranges, float* maximum) {
    PBesideProducts p(rows, scale_log2());
    const auto p_at = [&](i64 key) { return scratch_.p + filled_depth(key) * tile; };
    i64 key = part.begin;
    for (; key < part.end && ranges.all_strips(key, key + key_step); key += key_step) {
      if (!prefetcher_.empty()) prefetcher_.fetch(2 * key_step);
      const bool modified = modifies(rows, part, key, key + key_step);
      const float* keys = operands_.keys + key * depth(config::d);
      float* scores = part.scores + key * tile;
      if (key == part.begin)
        multiply_keys<tile_vectors>(scores, keys, rows.q, modified ? nullptr : maximum);
      else
        p.multiply_keys(scores, keys, rows.q, modified ? nullptr : maximum, p_at(key - key_step));
      if (modified) modify(rows, part, key, key + key_step, {0, strips}, maximum);
      if (key == part.begin && !rows.started) p.set_row_max(maximum);
    }
    p.make(part.scores + (key - key_step) * tile, p_at(key - key_step), {0, strips});
    for (; key < part.end; key += key_step)
      p.make(part.scores + key * tile, p_at(key), multiply_visible(rows, part, ranges, key, maximum));
    return p.keep(rows, maximum);
  }

  /// S^T of the keys that the rows see, and the maximum of each row.
  void compute_scores(const QueryTile& rows, const ForwardScoreTile& part, const StepKeyRanges& ranges,
                      float* maximum) {
    for (i64 key = part.begin; key < part.end; key += key_step)
      multiply_visible(rows, part, ranges, key, maximum);
  }

  /// S^T and the maximum for key_step keys. Returns the strips that see some of them.
  Range multiply_visible(const QueryTile& rows, const ForwardScoreTile& part, const StepKeyRanges& ranges,
                         i64 key, float* maximum) {
    const i64 end = key + key_step;
    const Range seeing = ranges.strips_of(key, end);
    if (seeing.empty()) return seeing;
    if (!prefetcher_.empty()) prefetcher_.fetch(2 * key_step);
    const bool modified = modifies(rows, part, key, end);
    multiply_strips(part.scores + key * tile, operands_.keys + key * depth(config::d), rows.q, seeing,
                    modified ? nullptr : maximum);
    if (modified) modify(rows, part, key, end, seeing, maximum);
    return seeing;
  }

  /// The factor from scores to base-2 logarithms.
  float scale_log2() const { return scale_.in_softmax * log2_of_e; }

  /// Whether the scores of the keys [begin, end) are more than the plain product.
  bool modifies(const QueryTile& rows, const ForwardScoreTile& part, i64 begin, i64 end) const {
    return config::bits || changes_scores || row_factors || scale_.before != 1.0f ||
           masks(rows, part, begin, end);
  }
  static bool masks(const QueryTile& rows, const ForwardScoreTile& part, i64 begin, i64 end) {
    return !rows.visible.sees_all(part.first_key + begin, part.first_key + end);
  }
  void modify(const QueryTile& rows, const ForwardScoreTile& part, i64 begin, i64 end, Range seeing,
              float* maximum) const {
    modify_scores(head_, part, rows.visible, scale_.before, masks(rows, part, begin, end), begin, end,
                  seeing.begin * strip, seeing.end * strip, maximum);
  }

  /// The scores of a chunk stay in the L1 cache. Their weights are kept until those of the whole step are
  /// there, or until O has to be rescaled.
  void add_in_chunks(QueryTile& rows, ForwardScoreTile& part) {
    float* const p = scratch_.scores;
    const i64 end = part.end;
    Range waiting[row_groups] = {};  // keys whose weights are not in O yet
    for (; part.begin < end; part.begin = part.end) {
      part.end = smaller(round_up(part.begin + 1, chunk), end);
      // Each chunk of a tile also prefetches its share of the next step's K and V, and of the next tile's Q
      // or O.
      if constexpr (prefetches) {
        constexpr i64 chunks = config::block_k / chunk;
        prefetcher_.fetch(ceil_divide(2 * config::block_k + tile, tile_count_ * chunks));
      }
      part.scores = p + (depth(config::block_k) - part.begin) * tile;  // after P
      alignas(64) float maximum[tile], rescale[tile];
      for (i64 lane = 0; lane < tile; lane += lanes) store(maximum + lane, broadcast(-infinity));
      const StepKeyRanges ranges(rows.visible, part.first_key, part.begin, part.end);
      compute_scores_amx(part.scores, operands_.keys, operands_.key_row, rows.q, ranges);
      finish_scores(rows, part, ranges, maximum);
      if (a_.row_max.data) raise_largest(rows, maximum);
      if (softmax(a_, random_, rows, part, ranges, maximum, scale_log2(), p, rescale)) {
        add_waiting(rows, waiting);
        if (rows.started) rescale_output(rows.output, rescale);
      }
      // Without a gap: a row that starts past one had no row_max, so that no weights are waiting now.
      for (i64 group = 0; group < row_groups; ++group) waiting[group].join(ranges.keys_of_group(group));
    }
    add_waiting(rows, waiting);
  }

  /// Scores as the softmax takes them, and the maximum of each row.
  void finish_scores(const QueryTile& rows, const ForwardScoreTile& part, const StepKeyRanges& ranges,
                     float* maximum) const {
    if (!modifies(rows, part, part.begin, part.end))
      return find_maximum(part.scores, part.begin, part.end, maximum);
    for (i64 group = 0; group < row_groups; ++group) {
      const Range keys = ranges.keys_of_group(group);
      const i64 first = group * group_rows / strip;
      if (!keys.empty())
        modify(rows, part, keys.begin, keys.end, {first, first + group_rows / strip}, maximum);
    }
  }

  /// O of all rows starts with the first keys of any of them: that of the other rows becomes 0.
  void add_waiting(QueryTile& rows, Range (&waiting)[row_groups]) const {
    bool any = false, all_equal = true;
    for (const Range& keys : waiting) {
      any |= !keys.empty();
      all_equal &= keys.begin == waiting[0].begin && keys.end == waiting[0].end;
    }
    if (!any) return;
    const i64 count = all_equal ? tile : group_rows;
    for (i64 row = 0; row < tile; row += count) {
      const Range keys = waiting[row / group_rows];
      if (!rows.started || !keys.empty())
        add_values_amx(rows.output, operands_.values, scratch_.scores, row, count, keys, rows.started);
    }
    for (Range& keys : waiting) keys = {0, 0};
    rows.started = true;
  }

  const CpuForwardArguments& a_;
  Head head_;
  philox::Random random_;
  i64 split_;
  CpuScoreScale scale_;
  Scratch scratch_;
  ForwardKeys keys_;
  RowFactors<config::block_k> factors_;
  CommonKeys common_;  // of all tiles
  StepOperands operands_{};
  QueryTile tiles_[config::block_q / tile];
  i64 tile_count_ = 0;
  Prefetcher prefetcher_;
};

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  [[maybe_unused]] const regard::TileUnit<regard::amx> unit;
  const auto& a = static_cast<const regard::CpuForwardArguments&>(*arguments);
  const regard::CpuForwardWork work(a, block);
  regard::CpuForwardBlock(a, work, scratch).run(block + a.side_by_side);
}
