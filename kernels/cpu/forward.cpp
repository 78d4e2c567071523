// Forward attention: O = softmax(scale Q K^T) V, tiled, with an online softmax; no sq x sk array anywhere.
//
// A block is key::block_q query rows of one (batch, head) against one part of the keys. It walks the keys in
// steps of key::block_k: K and V of a step are packed once, then each tile of 64 query rows takes
//   scores   S^T[key][row] = K Q^T      lanes are query rows, so that softmax needs no sum across lanes
//   softmax  P^T[key][row], running maximum and sum of each row
//   values   O[row][column] += P V      lanes are columns, so that O lies as it is stored
// With AMX, O is transposed too, until it is stored (forward_amx.h).
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/forward_amx.h"
#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scores.h"
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/values.h"

namespace regard {
namespace {

constexpr ForwardLayout layout(depth(key::d), depth(key::block_k), key::dv, key::block_q, key::block_k,
                               elementwise_bias);
static_assert(key::block_q % tile == 0 && key::block_k % (2 * key_step) == 0);
static_assert(!amx || lanes * width <= key::block_k * tile, "rows of O are turned in the memory of scores");
static_assert(!amx || depth(key::block_k) + chunk <= key::block_k, "weights and a chunk of scores lie there");
static_assert(!(key::bits || key::dropout) || key::block_k % 32 == 0, "words of bits serve 32 keys");

/// One tile of query rows: what stays from step to step.
struct QueryTile {
  float maximum[tile];  // of the row's scores so far
  float sum[tile];      // of 2^((score - maximum) * unit)
  TileRows<tile> visible;
  float* q;       // packed: [depth(d)][tile]
  float* output;  // [tile][width], not yet divided by the sum
  i64 first_row, rows;
  bool started;  // output holds something
};

/// S^T of the keys [begin, end) and the raw maximum of each row.
void compute_scores(float* scores, const float* keys, const float* q, i64 begin, i64 end, float* maximum) {
  constexpr i64 key_stride = depth(key::d);
  for (i64 lane = 0; lane < tile; lane += tile_vectors * lanes) {
    Floats largest[tile_vectors];
    REGARD_UNROLL
    for (int v = 0; v < tile_vectors; ++v) largest[v] = broadcast(-infinity);
    for (i64 key = begin; key < end; key += tile_rows) {
      Tile<tile_rows, tile_vectors> product;
      product.clear();
      product.add_product(keys + key * key_stride, key_stride, 1, q + lane, tile, key_stride);
      product.store_to(scores + key * tile + lane, tile);
      REGARD_UNROLL
      for (int r = 0; r < tile_rows; ++r) {
        REGARD_UNROLL
        for (int v = 0; v < tile_vectors; ++v) largest[v] = max(largest[v], product.sum[r][v]);
      }
    }
    REGARD_UNROLL
    for (int v = 0; v < tile_vectors; ++v) store(maximum + lane + v * lanes, largest[v]);
  }
}

/// What the next weights are relative to. By chunks of few keys a rescale costs as much as the product, so
/// that there a maximum is kept until a score exceeds it by more than a factor of 2^8 in weight.
REGARD_INLINE Floats new_maximum(Floats before, Floats largest, float unit) {
  if constexpr (!amx) return max(before, largest);
  const float slack = smaller(8 / unit, 1e30f);  // finite: before may be -infinity
  return select(largest > before + slack, largest, before);
}

/// P^T from S^T, as an operand of the product with V: [depth(key)][tile]; it may take the place of S^T.
/// `unit` turns scores into units of log 2. `rescale` gets the factor of what a row has summed up so far;
/// returns whether any is not 1.
bool softmax(const Head& head, QueryTile& rows, const ScoreTile& part, const float* largest, float unit,
             float* weights, float* rescale) {
  Ints changed{};
  for (i64 lane = 0; lane < tile; lane += lanes) {
    const Floats before = load<Floats>(rows.maximum + lane);
    const Floats maximum = new_maximum(before, load<Floats>(largest + lane), unit);
    // A row that has seen no key yet has maximum -infinity; -infinity - -infinity would be NaN.
    const Floats zero = select(maximum == -infinity, Floats{}, maximum);
    // Exactly 1 where the maximum stays: in a long row the error of a factor near 1 would add up.
    const Floats factor = select(maximum == before, broadcast(1.0f), exp2((before - zero) * unit));
    changed |= maximum != before;
    Floats sum = load<Floats>(rows.sum + lane) * factor;

    DropoutLanes dropout(head, rows.first_row + lane);
    const auto weight = [&](i64 key) {
      // The difference first: it is exact near the maximum, however large the scores are.
      const Floats p = exp2((load<Floats>(part.scores + key * tile + lane) - zero) * unit);
      sum += p;
      if constexpr (key::dropout) return select(dropout.kept(part.first_key + key), p, Floats{});
      return p;
    };
    for (i64 key = part.begin; key < part.end; key += 2) {
      const Floats low = weight(key), high = weight(key + 1);
      if constexpr (pairs) {
        store(weights + key / 2 * tile + lane, pair_of(low, high));
      } else {
        store(weights + key * tile + lane, low);
        store(weights + (key + 1) * tile + lane, high);
      }
    }
    store(rows.maximum + lane, maximum);
    store(rows.sum + lane, sum);
    store(rescale + lane, factor);
  }
  return any(changed);
}

/// Divides by the sum and stores: to O and LSE, or, of one part of the keys, to the workspace. `natural`
/// turns scores into natural units. `turned`: memory for `lanes` rows.
void store_tile(const Head& head, const QueryTile& rows, i64 split, float natural, float* turned) {
  const Arguments& a = head.arguments;
  if (!rows.started) __builtin_memset(rows.output, 0, tile * width * 4);
  float inverse[tile], lse[tile];
  for (i64 lane = 0; lane < tile; lane += lanes) {
    const SoftmaxEnd end = end_softmax(load<Floats>(rows.maximum + lane), load<Floats>(rows.sum + lane),
                                       natural, broadcast(head.sink()));
    store(inverse + lane, end.inverse * a.dropout_scale);
    store(lse + lane, end.lse);
  }
  for (i64 i = 0; i < rows.rows; ++i) {
    const i64 row = rows.first_row + i;
    const float* output = rows.output + i * width;
    if constexpr (amx) {
      if (i % lanes == 0) turn_output(turned, rows.output, i);
      output = turned + i % lanes * width;
    }
    if (a.splits > 1) {
      const i64 place = split * head.row_count() + head.row_number(row);
      store_row<DType::fp32, key::dv>(reinterpret_cast<u8*>(a.partial_o + place * key::dv), output,
                                      inverse[i]);
      a.partial_lse[place] = lse[i];
    } else {
      store_row<key::out, key::dv>(head.o(row), output, inverse[i]);
      if (a.lse.data) *head.lse(row) = lse[i];
    }
  }
}

/// Which rows, head and part of the keys a block has.
struct Work {
  i64 batch, head, first_row, split;

  Work(const Arguments& a, i64 block) {
    const i64 row_blocks = ceil_divide(a.sq, key::block_q);
    split = block % a.splits;
    block /= a.splits;
    i64 row_block;
    if (key::mask != Mask::none && a.positional) {
      // Under a causal mask the last rows see most keys: they go first, so that no thread is left with one.
      row_block = row_blocks - 1 - block / (a.b * a.hq);
      block %= a.b * a.hq;
    } else {
      row_block = block % row_blocks;
      block /= row_blocks;
    }
    first_row = row_block * key::block_q;
    batch = block / a.hq;
    head = block % a.hq;
  }
};

/// The scratch memory of a thread, divided.
struct Scratch {
  float *keys, *values, *scores, *bias;
  float *q, *output;  // of the first tile

  explicit Scratch(void* memory) {
    u8* at = static_cast<u8*>(memory);
    const auto take = [&at](i64 bytes) {
      at += bytes;
      return reinterpret_cast<float*>(at - bytes);
    };
    keys = take(layout.keys);
    values = take(layout.values);
    scores = take(layout.scores);
    bias = take(layout.bias);
    q = take(layout.q * layout.tiles);
    output = take(layout.output * layout.tiles);
  }
};

class Block {
 public:
  Block(const Arguments& a, const Work& work, void* memory)
      : a_(a), head_(a, work.batch, work.head), split_(work.split), scale_(a), scratch_(memory) {
    const i64 rows = smaller(key::block_q, head_.sequence.sq - work.first_row);
    for (; tile_count_ * tile < rows; ++tile_count_)
      start(tiles_[tile_count_], work.first_row + tile_count_ * tile,
            smaller(tile, rows - tile_count_ * tile));
  }

  void run() {
    i64 begin = head_.sequence.sk, end = 0;
    for (i64 t = 0; t < tile_count_; ++t) {
      begin = smaller(begin, tiles_[t].visible.first);
      end = larger(end, tiles_[t].visible.last);
    }
    if (a_.splits > 1) {
      begin = larger(begin, split_ * a_.split_keys);
      end = smaller(end, (split_ + 1) * a_.split_keys);
    }
    for (i64 key = begin / key::block_k * key::block_k; key < end; key += key::block_k) step(key, end);
    for (i64 t = 0; t < tile_count_; ++t)
      store_tile(head_, tiles_[t], split_, scale_.in_softmax, scratch_.scores);
    if (key::dropout && a_.dropout_mask.data && tile_count_ > 0)
      write_dropout_mask(
          head_, tiles_[0].first_row,
          tiles_[tile_count_ - 1].first_row + tiles_[tile_count_ - 1].rows - tiles_[0].first_row);
  }

 private:
  void start(QueryTile& rows, i64 first_row, i64 count) {
    rows.first_row = first_row;
    rows.rows = count;
    rows.started = false;
    rows.q = scratch_.q + tile_count_ * layout.q / 4;
    rows.output = scratch_.output + tile_count_ * layout.output / 4;
    rows.visible.find(a_, head_.sequence, first_row, count);
    pack_transposed<key::d, tile>(rows.q, head_.q(first_row), a_.q.row, count);
    for (i64 lane = 0; lane < tile; lane += lanes) {
      store(rows.maximum + lane, broadcast(-infinity));
      store(rows.sum + lane, Floats{});
    }
  }

  /// The keys [first_key, first_key + block_k), as far as they lie before `end`.
  void step(i64 first_key, i64 end) {
    bool packed = false;
    for (i64 t = 0; t < tile_count_; ++t) {
      QueryTile& rows = tiles_[t];
      const i64 last = smaller(smaller(end, rows.visible.last), first_key + key::block_k);
      if (!rows.visible.sees_any(first_key, last)) continue;
      ScoreTile part;
      part.scores = scratch_.scores;
      part.first_row = rows.first_row;
      part.rows = rows.rows;
      part.first_key = first_key;
      part.begin = larger<i64>(rows.visible.first - first_key, 0) / key_step * key_step;
      part.end = round_up(last - first_key, key_step);
      if constexpr (key::bits) {
        if (!load_bits(head_, part)) continue;
      }
      if (!packed) pack(first_key);
      packed = true;
      add(rows, part);
    }
  }

  void pack(i64 first_key) {
    const i64 count = smaller(key::block_k, head_.sequence.sk - first_key);
    pack_rows<key::d>(scratch_.keys, head_.k(first_key), a_.k.row, count, key::block_k);
    if constexpr (amx)
      pack_turned<key::dv, key::block_k>(scratch_.values, head_.v(first_key), a_.v.row, count);
    else
      pack_columns<key::dv, width>(scratch_.values, head_.v(first_key), a_.v.row, count, key::block_k);
  }

  /// One tile of rows against the keys of one step.
  void add(QueryTile& rows, ScoreTile& part) {
    if (elementwise_bias) load_bias(head_, part, scratch_.bias);
    if constexpr (amx) return add_in_chunks(rows, part);
    float rescale[tile];
    const bool changed = weigh(rows, part, part.scores, rescale);
    const i64 first = depth(part.begin);
    add_values<tile>({rows.output, part.scores + first * tile, scratch_.values + first * width,
                      depth(part.end) - first, rows.started, changed ? rescale : nullptr});
    rows.started = true;
  }

  /// From keys to `weights`, by way of part.scores; see softmax.
  bool weigh(QueryTile& rows, const ScoreTile& part, float* weights, float* rescale) {
    float maximum[tile];
    if constexpr (amx)
      compute_scores_amx(part.scores, scratch_.keys, rows.q, part.begin, part.end, maximum);
    else
      compute_scores(part.scores, scratch_.keys, rows.q, part.begin, part.end, maximum);

    const bool masked = !rows.visible.sees_all(part.first_key + part.begin, part.first_key + part.end);
    if (masked || key::bits || scale_.before != 1.0f || changes_scores)
      modify_scores(head_, part, rows.visible, scale_.before, masked, maximum);
    const float unit = scale_.in_softmax * log2_of_e;
    return softmax(head_, rows, part, maximum, unit, weights, rescale);
  }

  /// The scores of a chunk stay in the first cache. Their weights wait until those of the whole step are
  /// there, or until O has to be rescaled.
  void add_in_chunks(QueryTile& rows, ScoreTile& part) {
    float* const weights = scratch_.scores;
    const i64 end = part.end;
    i64 waiting = part.begin;  // weights from here on are not in O yet
    const auto add_waiting = [&](i64 until) {
      if (waiting == until) return;
      add_values_amx(rows.output, scratch_.values, weights, waiting, until, rows.started);
      rows.started = true;
      waiting = until;
    };
    for (; part.begin < end; part.begin = part.end) {
      float rescale[tile];
      part.end = smaller(round_up(part.begin + 1, chunk), end);
      part.scores = weights + (depth(key::block_k) - part.begin) * tile;  // behind the weights
      if (!weigh(rows, part, weights, rescale)) continue;
      add_waiting(part.begin);
      if (rows.started) rescale_output(rows.output, rescale);
    }
    add_waiting(end);
  }

  const Arguments& a_;
  Head head_;
  i64 split_;
  Scale scale_;
  Scratch scratch_;
  QueryTile tiles_[key::block_q / tile];
  i64 tile_count_ = 0;
};

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  [[maybe_unused]] const regard::TileUnit<regard::amx> unit;
  const regard::Work work(*arguments, block);
  regard::Block(*arguments, work, scratch).run();
}
