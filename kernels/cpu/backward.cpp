// Backward: dK, dV and dQ.
//
//   P = exp(S - LSE)    dV = P^T dO    dP = dO V^T    dS = P (dP - D)    dK = scale dS^T Q    dQ = scale dS K
//
// A block of the grid owns the keys of one part of one K/V head: all of them, or block_k. For each block_k
// keys it walks over the queries of every head of the group, block_q at a time, so that dK and dV are sums
// in scratch, written once and in one fixed order; if there are few long heads, the queries are cut into
// parts (query_parts.h). dQ is a sum in the workspace that blocks of keys add to in turn (backward_order.h).
// Scores are computed transposed, [key][query] with one lane per query: the sums over queries (dK, dV) and
// over keys (dQ) then both find dS as rows to broadcast.
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_amx.h"
#include "kernels/cpu/backward_bias.h"
#include "kernels/cpu/backward_order.h"
#include "kernels/cpu/backward_scores.h"
#include "kernels/cpu/flush_to_zero.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/query_parts.h"

namespace regard {
namespace {

/// A B operand with the n numbers of each row as columns, panel by panel.
template <i64 n>
REGARD_NOINLINE void pack_panels(float* to, const u8* from, i64 stride, i64 rows, i64 capacity) {
  constexpr i64 width = operand_panel, rest = n % width;
  const i64 height = depth(capacity);
  for (i64 column = 0; column + width <= n; column += width)
    pack_columns<width, width>(to + column * height, from + column * bytes_of<config::dtype>, stride, rows,
                               capacity);
  if constexpr (rest != 0)
    pack_columns<rest, width>(to + (n - rest) * height, from + (n - rest) * bytes_of<config::dtype>, stride,
                              rows, capacity);
}

/// The keys of one part of one K/V head, against some parts of the queries.
struct Backward {
  const CpuBackwardArguments& a;
  float* const scratch;
  const i64 batch, kv_head;
  const Range query_parts;
  const i64 group = a.hq / a.hk;
  Prefetcher prefetcher{};
  float* grad_kv{};  // sums of dK followed by those of dV, of the current part

  static constexpr i64 sums_k = block_k * columns_d, all_sums = sums_k + block_k * columns_dv;
  static_assert(scratch_layout.grad_v == scratch_layout.grad_k + sums_k);

  float* part(i64 offset) const { return scratch + offset; }

  /// Where the fp32 sum of dQ starts, from this query on.
  float* grad_q(const Head& head, i64 row) const { return a.grad_q_sum + head.row_number(row) * columns_d; }

  void run(i64 first_key, i64 end_key) {
    const Head head = head_of(a, batch, kv_head * group);
    if (query_parts.begin >= parts_of(a, head.sequence)) return;
    if constexpr (config::dbias) {
      if (!bias_shared(a).any())
        for (i64 i = 0; i < group; ++i)
          clear_bias_rows(head_of(a, batch, kv_head * group + i), first_key, smaller(end_key, a.sk));
    }
    // dQ of a sequence without keys is 0 and is stored by a first block without keys.
    const i64 blocks = larger<i64>(1, ceil_divide(head.sequence.sk, block_k));
    const i64 first = first_key / block_k, end = larger(first + 1, ceil_divide(end_key, block_k));
    for (i64 block = first; block < smaller(end, blocks); ++block) block_of_keys(head, block);
  }

  /// The last block of keys that the queries up to this one see: none of them sees further than the queries
  /// after it. With ranges, any query may see any block. dQ of queries before all keys belongs to block 0,
  /// dQ of queries past all keys to the last block.
  REGARD_NOINLINE i64 last_block_of(const Sequence& sequence, i64 query) const {
    const i64 end = a.ranges ? sequence.sk : keys_seen(a, sequence, query).window.end;
    return larger<i64>(1, ceil_divide(end, block_k)) - 1;
  }

  /// The first block of keys that the queries from this one on see; past the last block if they are past all
  /// keys. It never decreases from one query to the next.
  REGARD_NOINLINE i64 first_block_of(const Sequence& sequence, i64 query) const {
    return a.ranges ? 0 : keys_seen(a, sequence, query).first() / block_k;
  }

  /// Whether any of the queries might see any of the keys, which is quicker to determine than which ones. No
  /// query sees further back than those before it, except for sink tokens.
  REGARD_NOINLINE bool may_see(const Sequence& sequence, i64 query, i64 queries, i64 first, i64 keys) const {
    return a.ranges || keys_seen(a, sequence, query).window.begin < first + keys ||
           keys_seen(a, sequence, query + queries - 1).sinks.end > first;
  }

  REGARD_NOINLINE void block_of_keys(const Head& head, i64 block) {
    const Sequence& sequence = head.sequence;
    const i64 first = block * block_k, keys = smaller(block_k, sequence.sk - first);
    const i64 parts = parts_of(a, sequence), end_part = smaller(query_parts.end, parts);
    const i64 first_seeing = first_part_that_sees(a, sequence, first),
              from = larger(query_parts.begin, first_seeing);
    if (from >= end_part) return;
    pack_keys(head, first, keys);
    for (i64 query_part = from; query_part < end_part; ++query_part) {
      // Parts after the first keep their sums after all other scratch.
      grad_kv = part(query_part == from ? scratch_layout.grad_k : scratch_layout.floats);
      __builtin_memset(grad_kv, 0, all_sums * 4);
      LongSums sums(grad_kv, part(scratch_layout.floats) + all_sums, all_sums);
      part_of_queries(head, block, query_part, sums);
      sums.finish();
      if (query_part > from) add_to_first();
    }
    if (a.parts_apart && !add_parts(head, block, {first_seeing, parts})) return;
    store_rows<d>(head, a.grad_k, first, keys, part(scratch_layout.grad_k), a.scale);
    store_rows<dv>(head, a.grad_v, first, keys, part(scratch_layout.grad_v), 1.0f);
  }

  REGARD_NOINLINE void pack_keys(const Head& first_head, i64 first, i64 keys) {
    const u8 *const k = first_head.k(first), *const v = first_head.v(first);
    float* const k_columns = part(scratch_layout.k_columns);
    if constexpr (pieces == 2) {
      static_assert(pieces == 1 || transposed_rows * round_up(d, lanes) <= block_k * block_q);
      u16* const memory = reinterpret_cast<u16*>(part(scratch_layout.scores));
      pack_row_pieces<d>(part(scratch_layout.k_rows), scratch_layout.low, k, a.k.row, keys, block_k);
      pack_transposed_row_pieces<d, block_k>(k_columns, scratch_layout.low, k, a.k.row, keys, memory);
      pack_row_pieces<dv>(part(scratch_layout.v_rows), scratch_layout.low, v, a.v.row, keys, block_k);
      return;
    }
    pack_rows<d>(part(scratch_layout.k_rows), k, a.k.row, keys, block_k);
    if constexpr (amx)
      pack_transposed_rows<d, block_k>(k_columns, k, a.k.row, keys);
    else
      pack_panels<d>(k_columns, k, a.k.row, keys, block_k);
    pack_rows<dv>(part(scratch_layout.v_rows), v, a.v.row, keys, block_k);
  }

  /// The rows of a part are processed from the last tile to the first: under a causal mask all blocks of
  /// keys then start with the same tile, and none has to wait for the previous one to reach its own first
  /// tile.
  static i64 last_tile(const Range& rows) {
    return rows.begin + (ceil_divide(rows.end - rows.begin, block_q) - 1) * block_q;
  }

  /// Adds the contribution of one part of the queries to dK and dV of the block (the sums), and to dQ.
  REGARD_NOINLINE void part_of_queries(const Head& first_head, i64 block, i64 query_part,
                                       LongSums& grad_kv_sums) {
    const Sequence& sequence = first_head.sequence;
    const i64 first = block * block_k, keys = smaller(block_k, sequence.sk - first);
    const GradQSemaphore semaphore(a, batch, kv_head, query_part, block);
    const PartOfQueries own(a, sequence, query_part);
    VisibleUnits visible;
    // Rows, counted from the end of the part: finished by this block; added to by later blocks.
    i64 finished = 0, awaited = 0;
    for (i64 query = last_tile(own.rows); query >= own.rows.begin; query -= block_q) {
      const i64 queries = smaller(block_q, own.rows.end - query), done = own.rows.end - query;
      const i64 last_block = last_block_of(sequence, query + queries - 1);
      if (last_block < block) break;
      if (last_block > block) awaited = done;
      const i64 first_block = first_block_of(sequence, query);
      const bool is_first = block <= first_block;
      bool any = may_see(sequence, query, queries, first, keys);
      if (any) {
        visible.find(a, sequence, query, queries);
        any = visible.find_keys(first, keys, queries);
      }
      if (!any && block != first_block && block != last_block) continue;
      for (i64 i = own.heads.begin; i < own.heads.end; ++i) {
        const Head head = head_of(a, batch, kv_head * group + i);
        const TilePosition position{head, first, keys, query, queries};
        BackwardTile tile{a, position, visible, scratch, prefetcher};
        if (any && !amx) fetch_ahead(position, own, query_part, i);
        const bool adds = any && make_gradients(tile);
        if (adds) grad_kv_sums.added();
        float* const sums = grad_q(head, query);
        if (!is_first) semaphore.wait(done);
        if (is_first && !(amx && adds)) __builtin_memset(sums, 0, queries * columns_d * 4);
        if (a.grad_q_earlier) keep_grad_q(tile, block, is_first);
        if (adds) add_grad_q(tile, sums, is_first);
        if (block == last_block) store_grad_q(tile, whole_grad_q(tile, sums));
      }
      semaphore.finish(done);
      finished = done;
    }
    if (awaited <= finished) return;
    semaphore.wait(awaited);
    semaphore.finish(awaited);
  }

  /// Adds dK and dV of one part of the queries to those of the parts before.
  REGARD_NOINLINE void add_to_first() {
    float* const first = part(scratch_layout.grad_k);
    for (i64 i = 0; i < all_sums; i += lanes)
      store(first + i, load<Floats>(first + i) + load<Floats>(grad_kv + i));
  }

  /// The keys [first, first + keys) of dK or dV.
  template <i64 n>
  REGARD_NOINLINE void store_rows(const Head& head, const Rows& to, i64 first, i64 keys, const float* from,
                                  float factor) {
    for (i64 i = 0; i < keys; ++i)
      store_row<config::dtype, n>(head.address<config::dtype>(to, kv_head, head.sequence.first_k + first + i),
                                  from + i * padded_columns(n), factor);
  }

  /// If this part is the last of these parts to finish, adds up their dK and dV of the block in order.
  /// Otherwise returns false: they are left in the workspace for the part that finishes last.
  REGARD_NOINLINE bool add_parts(const Head& head, i64 block, Range parts) {
    const i64 first = block * block_k, keys = smaller(block_k, head.sequence.sk - first);
    const i64 row = row_of_query_part(a, head.sequence, query_parts.begin, kv_head, first);
    float *const grad_k = part(scratch_layout.grad_k), *const kept_k = a.grad_k_partial + row * columns_d;
    float *const grad_v = part(scratch_layout.grad_v), *const kept_v = a.grad_v_partial + row * columns_dv;
    const EndedParts ended(a, batch, kv_head, block);
    const i64 others = parts.end - parts.begin - 1;
    if (ended.count() < others) {
      __builtin_memcpy(kept_k, grad_k, keys * columns_d * 4);
      __builtin_memcpy(kept_v, grad_v, keys * columns_dv * 4);
      if (ended.add() < others) return false;
    }
    add_others(grad_k, kept_k, keys, columns_d, parts);
    add_others(grad_v, kept_v, keys, columns_dv, parts);
    return true;
  }

  /// Sums of this part become those of all parts. The sums of the others are stored around `kept`, the slot
  /// of this one.
  REGARD_NOINLINE void add_others(float* sums, const float* kept, i64 keys, i64 columns, Range parts) const {
    const i64 apart = a.hk * a.tk * columns;
    for (i64 i = 0; i < keys * columns; i += lanes) {
      Floats sum{};
      for (i64 p = parts.begin; p < parts.end; ++p) {
        const Floats more =
            load<Floats>(p == query_parts.begin ? sums + i : kept + (p - query_parts.begin) * apart + i);
        sum = p == parts.begin ? more : sum + more;
      }
      store(sums + i, sum);
    }
  }

  /// Whether the blocks that run at the same time belong to different heads or parts of the queries: the
  /// grid hands out all heads before it goes on to the next keys. Otherwise they add to the same sums of dQ.
  bool works_apart() const { return a.split_keys >= a.sk || a.b * a.hk * parts_of_grid(a) >= a.side_by_side; }

  /// Prefetches the sums of dQ that a tile will add to, unless other blocks add to them meanwhile, and what
  /// the next tile starts with: that of the next head (this is the i-th of its group), or of the next
  /// queries or keys.
  REGARD_NOINLINE void fetch_ahead(const TilePosition& position, PartOfQueries own, i64 query_part, i64 i) {
    const Sequence& sequence = position.head.sequence;
    constexpr i64 bytes = bytes_of<config::dtype>, sum_bytes = columns_d * 4;
    prefetcher.clear();
    if (works_apart())
      prefetcher.add(reinterpret_cast<const u8*>(grad_q(position.head, position.first_query)), sum_bytes,
                     sum_bytes, position.queries);
    i64 query = position.first_query;
    bool of_part = true;
    if (++i == own.heads.end) {
      i = own.heads.begin;
      query -= block_q;
      of_part = query >= own.rows.begin &&
                last_block_of(sequence, query + block_q - 1) >= position.first_key / block_k;
    }
    if (!of_part) {
      const i64 end_part = smaller(query_parts.end, parts_of(a, sequence));
      if (++query_part >= end_part) {
        const i64 key = position.first_key + block_k, keys = smaller(block_k, sequence.sk - key);
        if (keys <= 0) return;
        prefetcher.add(position.head.k(key), a.k.row * bytes, d * bytes, keys);
        prefetcher.add(position.head.v(key), a.v.row * bytes, dv * bytes, keys);
        query_part = larger(query_parts.begin, first_part_that_sees(a, sequence, key));
        if (query_part >= end_part) return;
      }
      own = PartOfQueries(a, sequence, query_part);
      i = own.heads.begin;
      query = last_tile(own.rows);
    }
    const Head head = head_of(a, batch, kv_head * group + i);
    const i64 queries = smaller(block_q, own.rows.end - query);
    prefetcher.add(head.q(query), a.q.row * bytes, d * bytes, queries);
    prefetcher.add(head.address<config::dtype>(a.grad_o, head.head, sequence.first_q + query),
                   a.grad_o.row * bytes, dv * bytes, queries);
  }

  /// Computes dK, dV, and dS as operands. False if dS is 0.
  REGARD_NOINLINE bool make_gradients(BackwardTile& tile) {
    const TilePosition& position = tile.position;
    const VisibleUnits& visible = tile.visible;
    if constexpr (config::bits)
      if (!load_bits(a, position, reinterpret_cast<u32*>(part(scratch_layout.bits)))) return false;
    if constexpr (elementwise_bias) load_bias(a, position, part(scratch_layout.bias));
    if constexpr (config::dropout)
      load_random_bytes(position, reinterpret_cast<u32*>(part(scratch_layout.dropout)));
    tile.load_rows();
    pack_queries(position);

    const auto [from, to] = visible.keys_of({0, units});
    if constexpr (amx)
      compute_scores_amx(tile, from, to);
    else
      compute_scores(tile, from, to);
    if constexpr (config::dbias) store_bias_gradient(a, position, tile.grad_bias());
    add_by_key<columns_dv>(part(scratch_layout.p), part(scratch_layout.grad_o_columns), visible, from, to,
                           grad_kv + sums_k);
    add_by_key<columns_d>(part(scratch_layout.grad_s), part(scratch_layout.q_columns), visible, from, to,
                          grad_kv);
    return true;
  }

  /// What the previous blocks of keys have added to a long sum of dQ.
  float* earlier_grad_q(const BackwardTile& tile) const {
    return a.grad_q_earlier + tile.position.head.row_number(tile.position.first_query) * columns_d;
  }
  /// Starts this sum and adds to it at intervals.
  REGARD_NOINLINE void keep_grad_q(const BackwardTile& tile, i64 block, bool is_first) {
    const i64 numbers = tile.position.queries * columns_d;
    float* const earlier = earlier_grad_q(tile);
    if (is_first)
      __builtin_memset(earlier, 0, numbers * 4);
    else if (block % (part_of_grad_q(block_k) / block_k) == 0)
      add_exactly(earlier, grad_q(tile.position.head, tile.position.first_query), numbers);
  }
  const float* whole_grad_q(const BackwardTile& tile, float* sums) const {
    if (!a.grad_q_earlier) return sums;
    float* const earlier = earlier_grad_q(tile);
    add_exactly(earlier, sums, tile.position.queries * columns_d);
    return earlier;
  }

  REGARD_NOINLINE void store_grad_q(const BackwardTile& tile, const float* sums) {
    const Head& head = tile.position.head;
    const i64 memory_row = head.sequence.first_q + tile.position.first_query, queries = tile.position.queries;
    [[maybe_unused]] const float* transposed = nullptr;
    for (i64 i = 0; i < queries; ++i) {
      const float* row = sums + i * columns_d;
      if constexpr (amx)
        if (tile.position.full()) {
          if (i % lanes == 0) transposed = rows_of_grad_q(tile, sums, i);
          row = transposed + i % lanes * columns_d;
        }
      store_row<config::dtype, d>(head.address<config::dtype>(a.grad_q, head.head, memory_row + i), row,
                                  a.scale);
    }
  }

  /// sums[key][columns] += operand[key][query] B[query][columns], over the queries that see the key.
  template <i64 columns>
  REGARD_NOINLINE void add_by_key(const float* operand, const float* b, const VisibleUnits& visible, i64 from,
                                  i64 to, float* sums) {
    if constexpr (amx) return add_by_key_amx(operand, b, visible, from, to, sums, columns);
    for_panels<columns>([&](i64 column, auto vectors) {
      for (i64 k = from; k < to; k += tile_rows) {
        const Range seeing = visible.units_of(k);
        add_product<tile_rows, vectors.value>(
            operand + k * depth(block_q) + place(depth(seeing.begin * unit)), depth(block_q), 1,
            b + column * depth(block_q) + depth(seeing.begin * unit) * panel,
            depth((seeing.end - seeing.begin) * unit), sums + k * columns + column, columns);
      }
    });
  }

  /// dQ[query][columns] += dS[key][query] K[key][columns], over the keys that the queries see. With AMX the
  /// first block of keys writes the sum.
  REGARD_NOINLINE void add_grad_q(const BackwardTile& tile, float* sums, bool is_first) {
    const VisibleUnits& visible = tile.visible;
    const i64 queries = tile.position.queries;
    const float* const k_columns = part(scratch_layout.k_columns);
    if constexpr (amx) return add_grad_q_amx(tile, sums, is_first, k_columns);
    for_panels<columns_d>([&](i64 column, auto vectors) {
      constexpr int rest = block_q % tile_rows;
      // The keys of a strip are found in one place for all heights, so that there is less to compile.
      for (i64 row = 0, rows; row < queries; row += rows) {
        rows = queries - row >= tile_rows ? tile_rows : rest != 0 && queries - row >= rest ? rest : 1;
        const Range keys = visible.keys_of({row / unit, (row + rows - 1) / unit + 1});
        if (keys.empty()) continue;
        const auto add = [&](auto height) {
          add_product<height.value, vectors.value>(
              tile.grad_s_vnni() + depth(keys.begin) * block_q + place(row), 1, block_q,
              k_columns + column * depth(block_k) + depth(keys.begin) * panel, depth(keys.count()),
              sums + row * columns_d + column, columns_d);
        };
        if (rows == tile_rows)
          add(Count<tile_rows>{});
        else if (rows == rest)
          add(Count < rest != 0 ? rest : 1 > {});
        else
          add(Count<1>{});
      }
    });
  }

  /// Not inlined: in the middle of much other code, g++ keeps the sums in memory instead of registers.
  template <int rows, int vectors>
  REGARD_OPTIMIZE static void add_product(const float* a, i64 a_row, i64 a_step, const float* b, i64 steps,
                                          float* c, i64 c_row) {
    RegisterTile<rows, vectors> sums;
    sums.clear();
    sums.add_product(a, a_row, a_step, b, panel, steps);
    sums.add_from(c, c_row);
    sums.store_to(c, c_row);
  }

  /// function(first column, number of vectors) for every panel of a B operand.
  template <i64 columns, class Function>
  REGARD_INLINE static void for_panels(Function function) {
    constexpr int rest = columns % panel / lanes;
    for (i64 column = 0; column + panel <= columns; column += panel) function(column, Count<tile_vectors>{});
    if constexpr (rest != 0) function(columns - columns % panel, Count<rest>{});
  }

  REGARD_NOINLINE void pack_queries(const TilePosition& position) {
    const Head& head = position.head;
    const u8* const q = head.q(position.first_query);
    const u8* const grad_o =
        head.address<config::dtype>(a.grad_o, head.head, head.sequence.first_q + position.first_query);
    pack_rows_of_queries<d>(scratch_layout.q_transposed, scratch_layout.q_columns, q, a.q.row,
                            position.queries);
    pack_rows_of_queries<dv>(scratch_layout.grad_o_transposed, scratch_layout.grad_o_columns, grad_o,
                             a.grad_o.row, position.queries);
  }

  /// Packs rows of Q or dO as both of their operands.
  template <i64 n>
  REGARD_NOINLINE void pack_rows_of_queries(i64 transposed, i64 columns, const u8* from, i64 stride,
                                            i64 queries) {
    const auto pack = [&](i64 piece, const u8* rows, i64 apart) {
      pack_transposed_panels<n, block_q, operand_panel>(part(transposed + piece), rows, apart, queries);
      pack_panels<n>(part(columns + piece), rows, apart, queries, block_q);
    };
    if constexpr (pieces == 2) {
      constexpr i64 apart = round_up(n, lanes);
      static_assert(scratch_layout.weights == scratch_layout.scores + block_k * block_q &&
                    block_q * apart <= 2 * block_k * block_q);
      u16* const high = reinterpret_cast<u16*>(part(scratch_layout.scores));
      u16* const low = high + block_q * apart;
      split_rows<n, apart>(high, low, from, stride, queries);
      pack(0, reinterpret_cast<const u8*>(high), apart);
      pack(scratch_layout.low, reinterpret_cast<const u8*>(low), apart);
    } else {
      pack(0, from, stride);
    }
  }
};

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  [[maybe_unused]] const TileUnit<amx> unit;
  const FlushToZero mode;
  const auto& a = static_cast<const CpuBackwardArguments&>(*arguments);
  const BiasShared shared = bias_shared(a);
  // The parts of the keys are outermost, so that heads and parts of the queries run at the same time and
  // wait less for their own blocks.
  const i64 batches = shared.batches ? 1 : a.b, heads = shared.heads ? 1 : a.hk;
  const i64 parts = parts_of_grid(a);
  const i64 split = block / (parts * batches * heads);
  const i64 first_part = block / (batches * heads) % parts;
  const Range query_parts{first_part, a.parts_apart ? first_part + 1 : a.query_parts};
  const i64 batch = block / heads % batches, head = block % heads;
  const i64 first_key = split * a.split_keys, end_key = first_key + a.split_keys;

  const i64 group = a.hq / a.hk;

  if (shared.any())
    for (i64 h = head * group; h < (shared.heads ? 1 : (head + 1) * group); ++h)
      clear_bias_image(a, batch, h, first_key, smaller(end_key, a.sk));
  for (i64 b = batch; b < (shared.batches ? a.b : batch + 1); ++b)
    for (i64 h = head; h < (shared.heads ? a.hk : head + 1); ++h)
      Backward{a, static_cast<float*>(scratch), b, h, query_parts}.run(first_key, end_key);
}
