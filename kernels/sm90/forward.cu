// Forward for Hopper: bf16, any positional mask, GQA, LSE.
//
// A persistent block of warpgroups. The first one's first thread takes work from a counter and loads tiles of
// Q, K and V by TMA; each other one multiplies 64 query rows by wgmma. In a warpgroup the products of a
// tile's weights with V run while the next tile's scores become weights, and those weights refer to the
// maximum of the tiles before (softmax.h), so that nothing waits for a maximum.
#include "kernels/sm90/forward_layout.h"
#include "kernels/sm90/ptx/tma.h"
#include "kernels/sm90/ptx/wgmma.h"
#include "kernels/sm90/softmax.h"
#include "kernels/sm90/store.h"

namespace regard {

constexpr Sm90ForwardLayout layout(key::d, key::dv, block_q, block_k, key::stages, 2);
constexpr i32 stages = key::stages, q_stages = layout.q_stages;
constexpr i32 group_rows = Sm90ForwardLayout::group_rows, box_bytes = Sm90ForwardLayout::box_bytes;
constexpr i32 consumers = key::warps / 4 - 1, consumer_warps = 4 * consumers;
static_assert(key::warps * 32 == Sm90ForwardLayout::threads(block_q) && block_k % 16 == 0);
static_assert(key::dtype == DType::bf16 && key::out == DType::bf16);

/// The warpgroups begin their products in turns, so that one's softmax lies beside the other's products.
constexpr bool turns = key::warp_groups == 2;
static_assert(!turns || consumers == 2);

/// O of a warpgroup: the columns of V in whole turns of four threads that store 8 each.
constexpr i32 columns = (key::dv + 31) / 32 * 32;
using Sums = float[columns / 2];

struct Shared {
  Barrier q_full[q_stages][consumers], q_empty[q_stages][consumers];
  Barrier k_full[stages], k_empty[stages], v_full[stages], v_empty[stages];
  // Two turns of work go on at a time.
  Barrier work_full[2], work_done[2];
  u32 work[2];
  bool careful[2];
  // By warp, the rows (a bit each) that overflowed in a turn, and that a careful turn is to write.
  u32 overflowed[2][consumer_warps], rows[2][consumer_warps];
};
constexpr u32 no_work = 0xffffffffu;

/// Where in a ring of stages one is.
template <i32 count>
struct Ring {
  i32 stage = 0;
  u32 parity = 0;
  REGARD_DEVICE void advance() {
    if (++stage < count) return;
    stage = 0;
    parity ^= 1;
  }
};

/// The rings of Q, K and V, one behind the other.
class Memory {
 public:
  REGARD_DEVICE explicit Memory(const void* dynamic) {
    constexpr u32 alignment = Sm90ForwardLayout::alignment;
    start_ = (shared_address(dynamic) + alignment - 1) / alignment * alignment;
  }
  REGARD_DEVICE u32 q(i32 stage, i32 warpgroup) const {
    return start_ + stage * static_cast<u32>(layout.q) + warpgroup * static_cast<u32>(layout.q / consumers);
  }
  REGARD_DEVICE u32 k(i32 stage) const { return q(q_stages, 0) + stage * static_cast<u32>(layout.k); }
  REGARD_DEVICE u32 v(i32 stage) const { return k(stages) + stage * static_cast<u32>(layout.v); }

 private:
  u32 start_;
};

// ---- the warpgroup that loads

/// A tile of `rows` in boxes, one behind the other.
template <i32 bytes, i32 rows>
REGARD_DEVICE void load(u32 to, const TensorMap& map, Barrier& full, i32 row, i32 head, i32 batch) {
  full.expect(bytes);
#pragma unroll
  for (i32 box = 0; box < bytes / (rows * box_bytes); ++box)
    load_box(to + box * rows * box_bytes, map, full, box * layout.columns, row, head, batch);
}

struct Producer {
  const TensorMap &q, &k, &v;
  const Arguments& a;
  Shared& shared;
  Memory memory;
  Ring<q_stages> ring_q;
  Ring<stages> ring;
  u32 turn = 0;

  /// Until the turn two before `next` has ended.
  REGARD_DEVICE void wait_for_place(u32 next) { shared.work_done[next % 2].wait(next / 2 % 2 ^ 1); }

  /// Whether rows of the last turn in `slot` overflowed: then this turn does them again.
  REGARD_DEVICE bool again(u32 slot) {
    u32 any = 0;
#pragma unroll 1
    for (i32 warp = 0; warp < consumer_warps; ++warp) {
      const u32 rows = shared.overflowed[slot][warp];
      shared.overflowed[slot][warp] = 0;
      shared.rows[turn % 2][warp] = rows;
      any |= rows;
    }
    shared.careful[turn % 2] = any != 0;
    return any != 0;
  }

  REGARD_DEVICE void hand_out(u32 index) {
    shared.work[turn % 2] = index;
    shared.work_full[turn % 2].arrive();
  }

  /// Each warpgroup's own rows, as soon as it is done with those before.
  REGARD_DEVICE void load_q(const Work& work) {
    const i32 stage = ring_q.stage;
#pragma unroll
    for (i32 i = 0; i < consumers; ++i) {
      shared.q_empty[stage][i].wait(ring_q.parity ^ 1);
      load<layout.q / consumers, group_rows>(memory.q(stage, i), q, shared.q_full[stage][i],
                                             work.first_row + i * group_rows, work.head, work.batch);
    }
    ring_q.advance();
  }

  REGARD_DEVICE void load_work(u32 index) {
    hand_out(index);
    const Work work = work_at(index, a);
    const Tiles tiles = tiles_of(work, Sight(a));
    const i32 head = work.head / static_cast<i32>(a.hq / a.hk);
    bool q_loaded = false;
#pragma unroll 1
    for (i32 tile = tiles.last - 1; tile >= tiles.first || !q_loaded; --tile) {
      const i32 stage = ring.stage;
      if (tile >= tiles.first) {
        shared.k_empty[stage].wait(ring.parity ^ 1);
        load<layout.k, block_k>(memory.k(stage), k, shared.k_full[stage], tile * block_k, head, work.batch);
      }
      if (!q_loaded) {  // behind the first K, which need not wait for the end of the last work
        load_q(work);
        q_loaded = true;
        if (tile < tiles.first) break;
      }
      shared.v_empty[stage].wait(ring.parity ^ 1);
      load<layout.v, block_k>(memory.v(stage), v, shared.v_full[stage], tile * block_k, head, work.batch);
      ring.advance();
    }
    ++turn;
  }

  REGARD_DEVICE void run() {
    prefetch(q);
    prefetch(k);
    prefetch(v);
    u32 fresh = blockIdx.x;
#pragma unroll 1
    while (true) {
      wait_for_place(turn);
      if (again(turn % 2)) {
        load_work(shared.work[turn % 2]);
      } else if (fresh < all_work(a)) {
        load_work(fresh);
        fresh = gridDim.x + atomicAdd(a.counter, 1u);
      } else {
        wait_for_place(turn + 1);
        if (!again((turn + 1) % 2)) break;
        load_work(shared.work[(turn + 1) % 2]);
      }
    }
    hand_out(no_work);
  }
};

// ---- the warpgroups that multiply

struct Consumer {
  const Arguments& a;
  Shared& shared;
  Memory memory;
  i32 warpgroup;  // 0 .. consumers - 1
  float scale_log2;
  Ring<q_stages> ring_q;
  Ring<stages> ring_k, ring_v;

  REGARD_DEVICE void arrive(Barrier& barrier) {
    if (threadIdx.x % 32 == 0) barrier.arrive();
  }

  /// S = Q K^T of the next tile, begun.
  REGARD_DEVICE void begin_scores(Scores& s) {
    const u32 q = memory.q(ring_q.stage, warpgroup), k = memory.k(ring_k.stage);
    shared.k_full[ring_k.stage].wait(ring_k.parity);
    wgmma_fence();
#pragma unroll
    for (i32 i = 0; i < (key::d + 15) / 16; ++i) {
      const i32 box = i / 4, inside = i % 4 * 32;
      Wgmma<block_k>::shared(s, operand(q + box * group_rows * box_bytes + inside, 0),
                             operand(k + box * block_k * box_bytes + inside, 0), i > 0);
    }
    wgmma_commit();
  }
  REGARD_DEVICE void done_with_q() {
    arrive(shared.q_empty[ring_q.stage][warpgroup]);
    ring_q.advance();
  }
  REGARD_DEVICE void done_with_k() {
    arrive(shared.k_empty[ring_k.stage]);
    ring_k.advance();
  }

  /// O += P V, begun.
  REGARD_DEVICE void begin_output(Sums& o, const Weights& weights) {
    const u32 v = memory.v(ring_v.stage);
    shared.v_full[ring_v.stage].wait(ring_v.parity);
    wgmma_fence();
#pragma unroll
    for (i32 i = 0; i < fragments; ++i)
      Wgmma<columns>::registers(o, weights[i], operand(v + i * 16 * box_bytes, block_k * box_bytes));
    wgmma_commit();
  }
  REGARD_DEVICE void done_with_v() {
    arrive(shared.v_empty[ring_v.stage]);
    ring_v.advance();
  }

  REGARD_DEVICE void scale(Sums& o, const float (&factor)[2]) {
#pragma unroll
    for (i32 i = 0; i < columns / 2; ++i) o[i] *= factor[i / 2 % 2];
  }

  REGARD_DEVICE i32 row_of(const Work& work) const {
    return work.first_row + warpgroup * group_rows +
           static_cast<i32>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
  }

  REGARD_DEVICE void compute(const Work& work, const Sight& sight, const Tiles& tiles, bool careful,
                             RowState& rows, Sums& o) {
    const i32 row = row_of(work);
    Scores s;
    Weights weights;
    float pending[2] = {1, 1};  // factor of O once the last weights are in it
    float factor[2];
    i32 tile = tiles.last - 1;
    begin_scores(s);
    wgmma_wait<0>();
    done_with_k();
    mask(s, tile * block_k, row, sight);
    softmax_exact(s, rows, factor, scale_log2, careful);
    pack(weights, s);
#pragma unroll 1
    while (--tile >= tiles.first) {
      if constexpr (turns) named_sync(2 + warpgroup);
      begin_scores(s);
      begin_output(o, weights);
      if constexpr (turns) named_arrive(2 + (warpgroup ^ 1));
      wgmma_wait<1>();
      done_with_k();
      const float before[2] = {pending[0], pending[1]};
      if (!careful && tile >= tiles.whole_first && tile < tiles.seen) {
        softmax_stale(s, rows, scale_log2);
        wgmma_wait<0>();
        done_with_v();
        pack(weights, s);
        follow(weights, rows, pending);
        scale(o, before);
      } else {
        if (tile < tiles.whole_first || tile >= tiles.whole_last) mask(s, tile * block_k, row, sight);
        softmax_exact(s, rows, factor, scale_log2, careful);
        wgmma_wait<0>();
        done_with_v();
        pack(weights, s);
        factor[0] *= before[0], factor[1] *= before[1];
        pending[0] = pending[1] = 1;
        scale(o, factor);
      }
    }
    done_with_q();
    begin_output(o, weights);
    wgmma_wait<0>();
    done_with_v();
    scale(o, pending);
  }

  /// A bit of `wanted` for each row of the warp.
  REGARD_DEVICE void store(const Work& work, const RowState& rows, const Sums& o, bool careful, u32 wanted) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const i32 row = row_of(work) + 8 * half;
      const float sum = quad_sum(rows.sum[half]);
      const bool real = row < a.sq && (wanted >> (threadIdx.x % 32 / 4 + 8 * half) & 1) != 0;
      if (a.lse.data != nullptr && threadIdx.x % 4 == 0 && real) {
        const float reference = careful ? rows.reference[half] * scale_log2 : rows.reference[half];
        *address<float>(a.lse, work, row) = sum > 0 ? ln_2 * (reference + log2(sum)) : -infinity;
      }
      store_row(address<u16>(a.o, work, row), o, half, sum > 0 ? 1.f / sum : 0.f, real);
    }
  }
  template <class T>
  REGARD_DEVICE static T* address(const Rows& rows, const Work& work, i32 row) {
    return static_cast<T*>(rows.data) + work.batch * rows.batch + work.head * rows.head + row * rows.row;
  }

  REGARD_DEVICE void run() {
    if (turns && warpgroup == 1) named_arrive(2);
#pragma unroll 1
    for (u32 turn = 0;; ++turn) {
      shared.work_full[turn % 2].wait(turn / 2 % 2);
      const u32 index = shared.work[turn % 2];
      if (index == no_work) return;
      const bool careful = shared.careful[turn % 2];
      const Work work = work_at(index, a);
      const Sight sight(a);
      const Tiles tiles = tiles_of(work, sight);
      RowState rows;
      Sums o;
#pragma unroll
      for (i32 i = 0; i < columns / 2; ++i) o[i] = 0;
      shared.q_full[ring_q.stage][warpgroup].wait(ring_q.parity);
      if (tiles.first < tiles.last)
        compute(work, sight, tiles, careful, rows, o);
      else
        done_with_q();
      const u32 warp = threadIdx.x / 32 - 4, bad = careful ? 0 : overflowed(rows);
      store(work, rows, o, careful, careful ? shared.rows[turn % 2][warp] : ~bad);
      if (threadIdx.x % 32 == 0) shared.overflowed[turn % 2][warp] = bad;
      __syncwarp();
      arrive(shared.work_done[turn % 2]);
    }
  }
};

}  // namespace regard

extern "C" __global__ void __launch_bounds__(regard::key::warps * 32, 1)
    REGARD_SYMBOL(const __grid_constant__ regard::TensorMap q, const __grid_constant__ regard::TensorMap k,
                  const __grid_constant__ regard::TensorMap v,
                  const __grid_constant__ regard::Arguments arguments) {
  using namespace regard;
  extern __shared__ char dynamic[];
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    for (i32 i = 0; i < q_stages * consumers; ++i) {
      shared.q_full[0][i].init(1);
      shared.q_empty[0][i].init(4);
    }
    for (i32 i = 0; i < stages; ++i) {
      shared.k_full[i].init(1);
      shared.k_empty[i].init(consumer_warps);
      shared.v_full[i].init(1);
      shared.v_empty[i].init(consumer_warps);
    }
    for (i32 i = 0; i < 2; ++i) {
      shared.work_full[i].init(1);
      shared.work_done[i].init(consumer_warps);
    }
    for (auto& of_turn : shared.overflowed)
      for (u32& rows : of_turn) rows = 0;
    Barrier::make_visible();
  }
  __syncthreads();
  const Memory memory(dynamic);
  const i32 warpgroup = __shfl_sync(whole_warp, threadIdx.x / 128, 0);
  // 64 K registers among the warpgroups; the compiler must not need more than each one is given.
  if (warpgroup == 0) {
    give_registers<consumers == 3 ? 32 : 40>();
    if (threadIdx.x == 0) Producer{q, k, v, arguments, shared, memory}.run();
  } else {
    take_registers<consumers == 3 ? 160 : 232>();
    Consumer{arguments, shared, memory, warpgroup - 1, arguments.scale * log2_e}.run();
  }
}
