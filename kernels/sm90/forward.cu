// Forward for Hopper: bf16, d and dv in whole boxes of 64, any positional mask, GQA, LSE.
//
// A persistent block of warpgroups. The first one's first thread takes work from a counter and loads tiles of
// Q, K and V by TMA; each other one multiplies 64 query rows by wgmma. In a warpgroup the products of a
// tile's weights with V run while the next tile's scores become weights, and those weights refer to the
// maximum of the tiles before (softmax.h), so that nothing waits for a maximum.
#include "kernels/sm90/ptx/tma.h"
#include "kernels/sm90/ptx/wgmma.h"
#include "kernels/sm90/softmax.h"

namespace regard {

constexpr i32 d = key::d, dv = key::dv, stages = key::stages;
constexpr i32 consumers = key::warps / 4 - 1, consumer_warps = 4 * consumers;
constexpr u32 q_bytes = block_q * d * 2, k_bytes = block_k * d * 2, v_bytes = block_k * dv * 2;
static_assert(block_q == 64 * consumers && block_k % 16 == 0 && d % 64 == 0 && dv % 64 == 0);
static_assert(key::dtype == DType::bf16 && key::out == DType::bf16);

/// The warpgroups begin their products in turns, so that one's softmax lies beside the other's products.
constexpr bool turns = key::warp_groups == 2;
static_assert(!turns || consumers == 2);

using Sums = float[dv / 2];

struct Shared {
  Barrier q_full, q_empty, k_full[stages], k_empty[stages], v_full[stages], v_empty[stages];
  // Two turns of work go on at a time.
  Barrier work_full[2], work_done[2];
  u32 work[2];
  bool careful[2];
  // By warp, the rows (a bit each) that overflowed in a turn, and that a careful turn is to write.
  u32 overflowed[2][consumer_warps], rows[2][consumer_warps];
};
constexpr u32 no_work = 0xffffffffu;

/// Where in a ring of stages one is.
struct Ring {
  i32 stage = 0;
  u32 parity = 0;
  REGARD_DEVICE void advance() {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

/// Q, then the ring of K, then that of V.
struct Memory {
  u32 q, k, v;
  REGARD_DEVICE explicit Memory(const void* dynamic) {
    q = (shared_address(dynamic) + 1023) & ~1023u;
    k = q + q_bytes;
    v = k + stages * k_bytes;
  }
};

// ---- the warpgroup that loads

template <i32 columns, i32 rows>
REGARD_DEVICE void load(u32 to, const TensorMap& map, Barrier& full, i32 row, i32 head, i32 batch) {
  full.expect(rows * columns * 2);
#pragma unroll
  for (i32 column = 0; column < columns; column += 64)
    load_box(to + column * rows * 2, map, full, column, row, head, batch);
}

struct Producer {
  const TensorMap &q, &k, &v;
  const ForwardArguments& a;
  Shared& shared;
  Memory memory;
  Ring ring;
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

  REGARD_DEVICE void load_work(u32 index) {
    hand_out(index);
    const Work work = work_at(index, a);
    const Tiles tiles = tiles_of(work, a);
    const i32 head = work.head / (a.hq / a.hk);
    bool q_loaded = false;
#pragma unroll 1
    for (i32 tile = tiles.last - 1; tile >= tiles.first || !q_loaded; --tile) {
      const i32 stage = ring.stage;
      if (tile >= tiles.first) {
        shared.k_empty[stage].wait(ring.parity ^ 1);
        load<d, block_k>(memory.k + stage * k_bytes, k, shared.k_full[stage], tile * block_k, head,
                         work.batch);
      }
      if (!q_loaded) {  // behind the first K, which need not wait for the end of the last work
        shared.q_empty.wait(turn % 2 ^ 1);
        load<d, block_q>(memory.q, q, shared.q_full, work.first_row, work.head, work.batch);
        q_loaded = true;
        if (tile < tiles.first) break;
      }
      shared.v_empty[stage].wait(ring.parity ^ 1);
      load<dv, block_k>(memory.v + stage * v_bytes, v, shared.v_full[stage], tile * block_k, head,
                        work.batch);
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
  const ForwardArguments& a;
  Shared& shared;
  Memory memory;
  i32 warpgroup;  // 0 .. consumers - 1
  Ring ring_k, ring_v;

  REGARD_DEVICE void arrive(Barrier& barrier) {
    if (threadIdx.x % 32 == 0) barrier.arrive();
  }

  /// S = Q K^T of the next tile, begun.
  REGARD_DEVICE void begin_scores(Scores& s) {
    const u32 q = memory.q + warpgroup * 64 * 128, k = memory.k + ring_k.stage * k_bytes;
    shared.k_full[ring_k.stage].wait(ring_k.parity);
    wgmma_fence();
#pragma unroll
    for (i32 i = 0; i < d / 16; ++i) {
      const i32 box = i / 4, inside = i % 4 * 32;
      Wgmma<block_k>::shared(s, operand(q + box * block_q * 128 + inside, 0),
                             operand(k + box * block_k * 128 + inside, 0), i > 0);
    }
    wgmma_commit();
  }
  REGARD_DEVICE void done_with_k() {
    arrive(shared.k_empty[ring_k.stage]);
    ring_k.advance();
  }

  /// O += P V, begun.
  REGARD_DEVICE void begin_output(Sums& o, const Weights& weights) {
    const u32 v = memory.v + ring_v.stage * v_bytes;
    shared.v_full[ring_v.stage].wait(ring_v.parity);
    wgmma_fence();
#pragma unroll
    for (i32 i = 0; i < fragments; ++i)
      Wgmma<dv>::registers(o, weights[i], operand(v + i * 16 * 128, block_k * 128));
    wgmma_commit();
  }
  REGARD_DEVICE void done_with_v() {
    arrive(shared.v_empty[ring_v.stage]);
    ring_v.advance();
  }

  REGARD_DEVICE void scale(Sums& o, const float (&factor)[2]) {
#pragma unroll
    for (i32 i = 0; i < dv / 2; ++i) o[i] *= factor[i / 2 % 2];
  }

  REGARD_DEVICE i32 row_of(const Work& work) const {
    return work.first_row + warpgroup * 64 +
           static_cast<i32>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
  }

  REGARD_DEVICE void compute(const Work& work, const Tiles& tiles, bool careful, Rows& rows, Sums& o) {
    const i32 row = row_of(work);
    Scores s;
    Weights weights;
    float pending[2] = {1, 1};  // factor of O once the last weights are in it
    float factor[2];
    i32 tile = tiles.last - 1;
    begin_scores(s);
    wgmma_wait<0>();
    done_with_k();
    mask(s, tile * block_k, row, a);
    softmax_exact(s, rows, factor, a.scale_log2, careful);
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
        softmax_stale(s, rows, a.scale_log2);
        wgmma_wait<0>();
        done_with_v();
        pack(weights, s);
        follow(weights, rows, pending);
        scale(o, before);
      } else {
        if (tile < tiles.whole_first || tile >= tiles.whole_last) mask(s, tile * block_k, row, a);
        softmax_exact(s, rows, factor, a.scale_log2, careful);
        wgmma_wait<0>();
        done_with_v();
        pack(weights, s);
        factor[0] *= before[0], factor[1] *= before[1];
        pending[0] = pending[1] = 1;
        scale(o, factor);
      }
    }
    arrive(shared.q_empty);
    begin_output(o, weights);
    wgmma_wait<0>();
    done_with_v();
    scale(o, pending);
  }

  /// Normalised, rounded, and turned within each quad so that a thread stores 16 bytes of a row. `wanted`: a
  /// bit for each row of the warp.
  REGARD_DEVICE void store(const Work& work, const Rows& rows, const Sums& o, bool careful, u32 wanted) {
    const u32 lane = threadIdx.x % 4;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const i32 row = row_of(work) + 8 * half;
      const float sum = quad_sum(rows.sum[half]), inverse = sum > 0 ? 1.f / sum : 0.f;
      const bool real = row < a.sq && (wanted >> (threadIdx.x % 32 / 4 + 8 * half) & 1) != 0;
      if (a.lse != nullptr && lane == 0 && real) {
        const float reference = careful ? rows.reference[half] * a.scale_log2 : rows.reference[half];
        a.lse[(static_cast<i64>(work.batch) * a.hq + work.head) * a.sq + row] =
            sum > 0 ? ln_2 * (reference + log2(sum)) : -infinity;
      }
      uint4* const to = reinterpret_cast<uint4*>(static_cast<unsigned short*>(a.o) + work.batch * a.o_batch +
                                                 work.head * a.o_head + row * a.o_row);
#pragma unroll
      for (i32 i = 0; i < dv / 8; i += 4) {
        u32 x[4];
#pragma unroll
        for (i32 j = 0; j < 4; ++j)
          x[j] = pair(o[4 * (i + j) + 2 * half] * inverse, o[4 * (i + j) + 2 * half + 1] * inverse);
        exchange(x[0], x[1], 1);
        exchange(x[2], x[3], 1);
        exchange(x[0], x[2], 2);
        exchange(x[1], x[3], 2);
        if (real) to[i + lane] = make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  }
  /// A step of a 2 x 2 turn: lanes with `bit` give their first and take into it, others the second.
  REGARD_DEVICE static void exchange(u32& first, u32& second, u32 bit) {
    const bool upper = threadIdx.x & bit;
    const u32 other = __shfl_xor_sync(whole_warp, upper ? first : second, bit);
    (upper ? first : second) = other;
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
      const Tiles tiles = tiles_of(work, a);
      Rows rows;
      Sums o;
#pragma unroll
      for (i32 i = 0; i < dv / 2; ++i) o[i] = 0;
      shared.q_full.wait(turn % 2);
      if (tiles.first < tiles.last)
        compute(work, tiles, careful, rows, o);
      else
        arrive(shared.q_empty);
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
                  const __grid_constant__ regard::ForwardArguments arguments) {
  using namespace regard;
  extern __shared__ char dynamic[];
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    shared.q_full.init(1);
    shared.q_empty.init(consumer_warps);
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
    Consumer{arguments, shared, memory, warpgroup - 1}.run();
  }
}
