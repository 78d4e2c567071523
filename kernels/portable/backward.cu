// Backward attention: dQ, dK and dV, tiled; P is recomputed from Q, K and LSE, and no sq x sk array is
// stored.
//
// A block is block_k keys of one K/V head, whose dK and dV it keeps in registers. It goes through the tiles
// of queries that see any of them, of all query heads that share the head, or of a part of those. P and dS
// pass through shared memory. dQ of a tile is added to a sum in global memory by all blocks that see it: in
// no fixed order or, if each tile has a counter, in turns. The instructions of each vendor's GPUs are in a
// separate folder (kernels/cuda/).
#include "kernels/machine/pdl.h"
#include "kernels/portable/backward_loads.h"
#include "kernels/portable/backward_scores.h"
#include "kernels/portable/backward_store.h"

namespace regard {

class PortableBackwardBlock {
 public:
  REGARD_DEVICE PortableBackwardBlock(const BackwardArguments& a, const PortableBackwardMemory& memory)
      : a_(a), memory_(memory), common_(*memory.common), tiles_(a, memory_), loads_(a, memory_, tiles_) {}

  REGARD_DEVICE void run(const PortableBackwardWork& work) {
    sync_block();  // the previous contents are no longer read
    if (thread() == 0) start(work, sequence_of(a_, work.batch));
    sync_block();
    if (common_.work.first_key >= common_.window.keys) return;
    typename ShareOfK::Sums grad_k = {};
    typename ShareOfV::Sums grad_v = {};
    add_tiles(grad_k, grad_v);
    sync_block();
    store(grad_k, grad_v);
  }

  /// The next of the batches and heads that one block handles.
  REGARD_DEVICE bool next(PortableBackwardWork& work) const {
    if (a_.bias_in_turn == 0) return false;
    work = common_.work;
    return work.next();
  }

 private:
  REGARD_DEVICE void start(const PortableBackwardWork& work, const Sequence& sequence) const {
    BackwardCommon& c = common_;
    c.sequence = sequence;
    c.window = Window(a_, sequence);
    const auto first = [&](const Rows& rows) {
      return static_cast<const u8*>(rows.data) +
             element_of(rows, work.batch, 0, sequence.first_q) * operand_bytes;
    };
    c.q = first(a_.q), c.grad_o = first(a_.grad_o);
    c.padded_row = first_padded_row(a_, sequence, 0);
    c.work = work;
    const Range32 rows = rows_that_see(c.window, work.first_key, work.first_key + block_k);
    c.end_row = rows.end;
    c.first_row = c.start_row = rows.begin / block_q * block_q;
    if (config::mask == Mask::none && !a_.turns) {
      const auto blocks_of = [](i64 rows, i32 block) { return static_cast<u32>((rows + block - 1) / block); };
      c.start_row +=
          block_q * start_tile(static_cast<u32>(work.first_key) / block_k, blocks_of(a_.sk, block_k),
                               blocks_of(c.end_row - c.first_row, block_q));
    }
    if (rows.empty()) c.work.end_head = c.work.first_head;
  }

  REGARD_DEVICE void add_scores(Scores& s, i32 slot) const {
    const u32 keys = memory_.keys + static_cast<u32>(part_of_wave() * wave_keys * layout.row_of_q);
    Multiply::add<block_d>(s, Multiply::A<RowsD, row_tiles>(memory_.q_in(slot), row_of_wave()),
                           Multiply::B<RowsD, key_tiles>(keys, 0));
  }
  REGARD_DEVICE void add_grad_p(Scores& s) const {
    const u32 values = memory_.values + static_cast<u32>(part_of_wave() * wave_keys * layout.row_of_v);
    Multiply::add<block_dv>(s, Multiply::A<RowsDv, row_tiles>(memory_.grad_o, row_of_wave()),
                            Multiply::B<RowsDv, key_tiles>(values, 0));
  }

  REGARD_DEVICE void load_statistics(RowNumbers& lse, RowNumbers& delta, i32 slot) const {
    load_rows(lse, memory_.lse + slot * layout.statistics);
    load_rows(delta, memory_.delta);
  }

  /// Changes scores to the form from which weights are made.
  REGARD_DEVICE void finish_scores(const HeadTile& tile, const Head& head, Scores& s, Slopes& slopes) const {
    const i32 key = common_.work.first_key + part_of_wave() * wave_keys;
    change_scores(s, slopes, ScoreBias(head, tile.first_row), key, PortableScoreScale(head), a_.softcap);
    if (!tiles_.is_masked(tile)) return;
    Bits bits;
    if constexpr (config::bits) bits = Bits(head, tile.first_row);
    mask(s, memory_.visible, bits, key, static_cast<i32>(common_.window.keys));
  }
  REGARD_DEVICE void make_p_of_tile(const HeadTile& tile, const Head& head, const RowNumbers& lse,
                                    Scores& s) const {
    make_p(s, lse, PortableScoreScale(head).log2);
    if constexpr (config::dropout) {
      SignedP signs{s};
      drop(signs, random_of(a_, head.batch, head.head), a_.dropout_keep, tile.first_row,
           common_.work.first_key + part_of_wave() * wave_keys);
    }
    store_operand<config::dropout>(memory_.p, s);
  }
  /// Returns whether dS was scaled back.
  REGARD_DEVICE bool make_grad_s_of_tile(const HeadTile& tile, RowNumbers& delta, Scores& grad,
                                         const Scores& p, [[maybe_unused]] const Slopes& slopes) const {
    // The gradient of a bias is dS itself.
    make_grad_s(grad, p, delta, a_.dropout_scale, config::dbias ? p_scale : a_.grad_p_factor);
    if constexpr (config::dbias) {
      if (common_.work.column_part == 0)
        store_grad_bias(a_, tiles_.head_of(tile), grad, tile.first_row,
                        common_.work.first_key + part_of_wave() * wave_keys);
    }
    if constexpr (config::softcap || (config::dbias && scales_operands))
      each_of_scores([&](i32 m, i32 n, i32 half, i32 i) {
        float& x = grad[m][n].x[half][i];
        if constexpr (config::softcap) x *= slopes[m][n].x[half][i];
        if constexpr (config::dbias && scales_operands) x *= a_.ds_scale;
      });
    const bool scaled_back = scale_back(grad);
    store_operand<false>(memory_.grad_s, grad);
    return scaled_back;
  }

  REGARD_DEVICE void add_grad_q_of_tile(const HeadTile& tile, bool scaled_back) const {
    typename ShareOfQ::Sums sums = {};
    Multiply::add<block_k>(sums, ShareOfQ::a(memory_.grad_s), ShareOfQ::b(memory_.keys));
    if (scaled_back) scale_all(sums, ds_scale_of_subnormals());
    const i64 row = tiles_.padded_row(tile);
    u32* const turn = a_.turns ? a_.turns + row / block_q * parts + common_.work.column_part : nullptr;
    if (turn) {
      const KeyBlocks blocks(common_.window, tile.first_row, block_q, block_k);
      if (thread() == 0)
        wait_for_count(turn, blocks.before(common_.work.first_key / block_k, a_.keys_descend != 0));
      sync_block_and_global();
    }
    add_grad_q<adds_fragments>(a_.grad_q_sum + row * grad_q_columns, sums,
                               common_.work.column_part * block_d);
    if (turn) {
      sync_block_and_global();
      if (thread() == 0) count_one(turn);
    }
  }

  /// Whether the next tile of queries passes through registers: all of it can be on its way there during dQ
  /// and dK.
  static constexpr bool in_registers = whole && stages == 1 && most_vectors_on_their_way > 0;

  /// If K and V stay, the next dO is loaded during dQ and dK, and the next Q, if it has a second slot, from
  /// the computation of P on, so that the next scores do not wait for any load.
  REGARD_DEVICE void add_tiles(typename ShareOfK::Sums& grad_k, typename ShareOfV::Sums& grad_v) const {
    HeadTile tile = tiles_.first();
    if (!tiles_.exists(tile)) return;
    if constexpr (whole) {
      loads_.keys_and_values(0);
      loads_.queries(tile, 0);
      loads_.lse(tile, 0);
      loads_.delta(tile);
      meet_with_copies();
    }
#pragma unroll 1
    for (i32 slot = 0; tiles_.exists(tile); slot = slot + 1 < stages ? slot + 1 : 0) {
      const HeadTile following = tiles_.after(tile);
      if (tiles_.is_masked(tile)) tiles_.find_visible(tile);
      Scores s = {}, grad = {};
      Slopes slopes;
      const Head head = tiles_.head_of(tile);
      if constexpr (whole)
        add_scores(s, slot);
      else
        add_parts(tile, s, grad);
      if constexpr (stages > 1) {
        meet_with_copies();  // dO is visible to all, and the last Q is no longer read
        load_next_q(following, 1 - slot);
      } else if constexpr (by_position) {
        sync_block();  // what rows see is visible to all
      }
      finish_scores(tile, head, s, slopes);
      // The compiler computes P during the next product, and dS during the one after: nothing in between
      // enforces an order.
      RowNumbers lse, delta;
      constexpr bool late = is_rich || config::dropout;
      if constexpr (!late) load_statistics(lse, delta, slot);
      if constexpr (whole) add_grad_p(grad);
      if constexpr (late) load_statistics(lse, delta, slot);
      make_p_of_tile(tile, head, lse, s);
      bool scaled_back = false;
      if constexpr (is_rich) scaled_back = make_grad_s_of_tile(tile, delta, grad, s, slopes);
      sync_block();  // P is visible to all
      Multiply::add<block_q>(grad_v, ShareOfV::a(memory_.p), ShareOfV::b(memory_.grad_o));
      if constexpr (!is_rich) scaled_back = make_grad_s_of_tile(tile, delta, grad, s, slopes);
      meet_with_copies();  // dS and the next Q are visible to all, and dO and D are no longer read
      [[maybe_unused]] NextQueries next;
      if (whole && tiles_.exists(following)) {
        if constexpr (in_registers) {
          next.begin(loads_, following);
        } else {
          Loads::columns_dv<block_q>(memory_.grad_o, loads_.grad_o_of(following), 0);
          loads_.delta(following);
        }
      }
      end_copies();
      add_grad_q_of_tile(tile, scaled_back);
      if (scaled_back) scale_all(grad_k, 1 / ds_scale_of_subnormals());
      Multiply::add<block_q>(grad_k, ShareOfK::a(memory_.grad_s), ShareOfK::b(memory_.q_in(slot)));
      if (scaled_back) scale_all(grad_k, ds_scale_of_subnormals());
      if constexpr (whole && stages == 1) {
        sync_block();  // Q is no longer read
        if constexpr (!in_registers)
          load_next_q(following, 0);
        else if (tiles_.exists(following))
          next.arrive(loads_, following);
        meet_with_copies();
      }
      tile = following;
    }
  }

  /// Waits for all pending copies, and for all threads.
  REGARD_DEVICE static void meet_with_copies() {
    end_copies();
    wait_for_copies<0>();
    sync_block();
  }
  REGARD_DEVICE void load_next_q(const HeadTile& following, i32 slot) const {
    if (tiles_.exists(following)) {
      Loads::columns_d<block_q>(memory_.q_in(slot), loads_.q_of(following), 0);
      loads_.lse(following, slot);
    }
    end_copies();
  }

  /// S and dP of a tile whose columns come in parts; this block's own part last, as it then stays in memory.
  REGARD_DEVICE void add_parts(const HeadTile& tile, Scores& s, Scores& grad) const {
    const i32 own = common_.work.column_part;
#pragma unroll 1
    for (i32 i = 1; i <= parts; ++i) {
      const i32 part = (own + i) % parts;
      sync_block();  // the previous ones are no longer read
      loads_.keys_and_values(part);
      loads_.queries(tile, part);
      if (i == 1) {
        loads_.lse(tile, 0);
        loads_.delta(tile);
      }
      end_copies();
      wait_for_copies<0>();
      sync_block();
      add_scores(s, 0);
      add_grad_p(grad);
    }
  }

  REGARD_DEVICE void store(typename ShareOfK::Sums& grad_k, typename ShareOfV::Sums& grad_v) const {
    const BackwardCommon& c = common_;
    const i32 count = static_cast<i32>(smaller<i64>(c.window.keys - c.work.first_key, block_k));
    const i32 column_d = c.work.column_part * block_d, column_dv = c.work.column_part * block_dv;
    if (a_.grad_k_sum) {
      const i64 row = key_number(a_, c.sequence, c.work.kv_head, c.work.first_key);
      add_grad_keys<ShareOfK, block_d, grad_q_columns>(
          memory_.dynamic, grad_k, a_.grad_k_sum + row * grad_q_columns + column_d, count);
      sync_block();
      add_grad_keys<ShareOfV, block_dv, grad_v_columns>(
          memory_.dynamic, grad_v, a_.grad_v_sum + row * grad_v_columns + column_dv, count);
      return;
    }
    const auto rows_of = [&](const Rows& rows, i32 column, i32 columns) {
      const i64 element =
          element_of(rows, c.work.batch, c.work.kv_head, c.sequence.first_k + c.work.first_key) + column;
      return GradRows{static_cast<u8*>(rows.data) + element * operand_bytes, rows.row * operand_bytes, count,
                      columns - column};
    };
    store_grad_keys<ShareOfK, layout.row_of_q, block_d>(memory_.dynamic, grad_k, a_.scale / a_.ds_scale,
                                                        rows_of(a_.grad_k, column_d, config::d));
    store_grad_keys<ShareOfV, layout.row_of_v, block_dv>(memory_.dynamic + layout.keys, grad_v,
                                                         a_.dropout_scale * p_scale,
                                                         rows_of(a_.grad_v, column_dv, config::dv));
  }

  const BackwardArguments& a_;
  const PortableBackwardMemory memory_;
  BackwardCommon& common_;
  const QueryTiles tiles_;
  const Loads loads_;
};

}  // namespace regard

REGARD_KERNEL(regard::BackwardArguments, regard::threads,
              regard::config::occupancy > 0 ? regard::config::occupancy : 1) {
  REGARD_DYNAMIC_MEMORY(dynamic, regard::tile_alignment);
  using namespace regard;
  launch_dependent_grids();
  wait_on_dependent_grids();
  PortableBackwardBlock block(arguments, PortableBackwardMemory(dynamic));
  PortableBackwardWork work(arguments, block_index());
  do block.run(work);
  while (block.next(work));
}
