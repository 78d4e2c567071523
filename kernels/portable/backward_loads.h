// Loads K, V and a tile of queries into shared memory.
#pragma once

#include "kernels/head.h"
#include "kernels/portable/backward_tiles.h"

namespace regard {

struct Loads {
  const BackwardArguments& a;
  const PortableBackwardMemory memory;
  const BackwardCommon& common;
  const QueryTiles tiles;

  REGARD_DEVICE Loads(const BackwardArguments& arguments, const PortableBackwardMemory& of_block,
                      const QueryTiles& of_queries)
      : a(arguments), memory(of_block), common(*of_block.common), tiles(of_queries) {}

  /// One number for each row of a tile.
  REGARD_DEVICE static void statistics(u32 to, const float* from) {
    constexpr i32 vector = 4;
    for (i32 i = thread(); i < block_q / vector; i += threads)
      copy_vector(to + static_cast<u32>(i * 16), from + i * vector, 16);
  }
  /// The source of a tile's rows, the first row and the end.
  struct Origin {
    RowSource rows;
    i32 first, end;
  };
  REGARD_DEVICE Origin rows_of(const HeadTile& tile, const u8* head_0, const Rows& tensor) const {
    return {RowSource(head_0 + tile.head * tensor.head * operand_bytes, tensor.row), tile.first_row,
            static_cast<i32>(common.window.rows)};
  }
  REGARD_DEVICE Origin q_of(const HeadTile& tile) const { return rows_of(tile, common.q, a.q); }
  REGARD_DEVICE Origin grad_o_of(const HeadTile& tile) const {
    return rows_of(tile, common.grad_o, a.grad_o);
  }

  /// Columns of Q or K, and of V or dO.
  template <i32 rows>
  REGARD_DEVICE static void columns_d(u32 to, const Origin& from, i32 column_part) {
    load_tile<rows, block_d, layout.row_of_q>(to, from.rows,
                                              {from.first, from.end, column_part * block_d, config::d});
  }
  template <i32 rows>
  REGARD_DEVICE static void columns_dv(u32 to, const Origin& from, i32 column_part) {
    load_tile<rows, block_dv, layout.row_of_v>(to, from.rows,
                                               {from.first, from.end, column_part * block_dv, config::dv});
  }
  /// Both. The compiler takes long for each load: if their shapes are the same, they share one.
  template <i32 rows>
  REGARD_DEVICE static void both(u32 to_d, const Origin& d, u32 to_dv, const Origin& dv, i32 column_part) {
    if constexpr (config::d == config::dv && layout.row_of_q == layout.row_of_v) {
#pragma unroll 1
      for (i32 i = 0; i < 2; ++i) columns_d<rows>(i == 0 ? to_d : to_dv, i == 0 ? d : dv, column_part);
    } else {
      columns_d<rows>(to_d, d, column_part);
      columns_dv<rows>(to_dv, dv, column_part);
    }
  }
  REGARD_DEVICE void keys_and_values(i32 column_part) const {
    const Head head(a, common.work.batch, common.work.kv_head * common.work.group);
    const i32 first = common.work.first_key, end = static_cast<i32>(common.window.keys);
    both<block_k>(memory.keys, {RowSource(head.k(0), a.k.row), first, end}, memory.values,
                  {RowSource(head.v(0), a.v.row), first, end}, column_part);
  }
  REGARD_DEVICE void queries(const HeadTile& tile, i32 column_part) const {
    both<block_q>(memory.q, q_of(tile), memory.grad_o, grad_o_of(tile), column_part);
  }
  REGARD_DEVICE const float* lse_of(const HeadTile& tile) const {
    return a.lse_log2 + tiles.padded_row(tile);
  }
  REGARD_DEVICE const float* delta_of(const HeadTile& tile) const { return a.delta + tiles.padded_row(tile); }
  REGARD_DEVICE void lse(const HeadTile& tile, i32 slot) const {
    statistics(memory.lse + slot * layout.statistics, lse_of(tile));
  }
  REGARD_DEVICE void delta(const HeadTile& tile) const { statistics(memory.delta, delta_of(tile)); }
};

/// The next tile of queries, on its way in registers while shared memory still has the current one.
class NextQueries {
  static constexpr i32 vectors = block_q / 4;  // of statistics
  static_assert(vectors <= threads);

 public:
  REGARD_DEVICE void begin(const Loads& loads, const HeadTile& tile) {
    if (thread() < vectors) {
      load_vector(lse_, loads.lse_of(tile) + thread() * 4, 16);
      load_vector(delta_, loads.delta_of(tile) + thread() * 4, 16);
    }
    const Loads::Origin q = loads.q_of(tile), grad_o = loads.grad_o_of(tile);
    q_.begin_in_registers(q.rows, bounds(q, config::d));
    grad_o_.begin_in_registers(grad_o.rows, bounds(grad_o, config::dv));
  }
  REGARD_DEVICE void arrive(const Loads& loads, const HeadTile& tile) const {
    const PortableBackwardMemory& memory = loads.memory;
    if (thread() < vectors) {
      store_vector(memory.lse + static_cast<u32>(thread() * 16), lse_);
      store_vector(memory.delta + static_cast<u32>(thread() * 16), delta_);
    }
    const Loads::Origin q = loads.q_of(tile), grad_o = loads.grad_o_of(tile);
    q_.arrive(memory.q, q.rows, bounds(q, config::d));
    grad_o_.arrive(memory.grad_o, grad_o.rows, bounds(grad_o, config::dv));
  }

 private:
  REGARD_DEVICE static TileBounds bounds(const Loads::Origin& from, i32 columns) {
    return {from.first, from.end, 0, columns};
  }

  u32 lse_[4], delta_[4];
  TileCopy<block_q, block_d, layout.row_of_q, true> q_;
  TileCopy<block_q, block_dv, layout.row_of_v, true> grad_o_;
};

}  // namespace regard
