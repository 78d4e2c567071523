// The end of a block of decode.cu: adds the sums of its waves, and stores O, LSE and row_max or, for a part
// of the keys, what combine.cu merges.
#pragma once

#include "kernels/portable/decode_schedule.h"
#include "kernels/portable/decode_softmax.h"
#include "kernels/portable/pack_gqa.h"
#include "kernels/portable/scores.h"
#include "kernels/sink.h"

namespace regard {

/// row_max and sum of each wave's rows, then their O and, if row_max is a result, their largest scores.
class WaveSums {
  static constexpr i32 row = static_cast<i32>(layout.row);

 public:
  REGARD_DEVICE explicit WaveSums(u8* memory)
      : ends_(reinterpret_cast<float2*>(memory)),
        o_(reinterpret_cast<float*>(memory + config::warps * block_q * sizeof(float2))),
        largest_(o_ + config::warps * block_q * row) {}

  REGARD_DEVICE void put(const DecodeSoftmax& softmax, const DecodeOutput& o) const {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const i32 index = part_of_wave() * block_q + Fragment::row() + half * Fragment::row_step;
      const float sum = reduce_sum(softmax.sum[half]);
      if (Fragment::first_of_row()) ends_[index] = {softmax.row_max[half], sum};
      if constexpr (config::row_max) {
        const float largest = reduce_max(softmax.largest[half]);
        if (Fragment::first_of_row()) largest_[index] = largest;
      }
#pragma unroll
      for (i32 c = 0; c < reads; ++c)
#pragma unroll
        for (i32 lane_of_v = 0; lane_of_v < 2; ++lane_of_v) {
          float* const to = o_ + index * row + (c * 8 + Fragment::column() + lane_of_v) * numbers_of_v;
#pragma unroll
          for (i32 i = 0; i < numbers_of_v; i += 4)
            *reinterpret_cast<float4*>(to + i) = {o[c][i].x[half][lane_of_v], o[c][i + 1].x[half][lane_of_v],
                                                  o[c][i + 2].x[half][lane_of_v],
                                                  o[c][i + 3].x[half][lane_of_v]};
        }
    }
  }

  struct RowEnd {
    float row_max, sum;
    float weight[config::warps];  // of each wave's sums
  };
  REGARD_DEVICE RowEnd end_of(i32 of_block, float scale_log2) const {
    RowEnd end = {-infinity, 0, {}};
#pragma unroll
    for (i32 w = 0; w < config::warps; ++w) end.row_max = fmaxf(end.row_max, ends_[w * block_q + of_block].x);
#pragma unroll
    for (i32 w = 0; w < config::warps; ++w) {
      const float2 of_wave = ends_[w * block_q + of_block];
      end.weight[w] = exp2((of_wave.x - finite(end.row_max)) * scale_log2);
      end.sum += of_wave.y * end.weight[w];
    }
    return end;
  }
  REGARD_DEVICE float largest_of(i32 of_block) const {
    float largest = -infinity;
#pragma unroll
    for (i32 w = 0; w < config::warps; ++w) largest = fmaxf(largest, largest_[w * block_q + of_block]);
    return largest;
  }
  /// Four neighbouring columns of a row.
  REGARD_DEVICE void add(float (&x)[4], const RowEnd& end, i32 of_block, i32 column) const {
#pragma unroll
    for (float& sum : x) sum = 0;
#pragma unroll
    for (i32 w = 0; w < config::warps; ++w) {
      const float4 of_wave = *reinterpret_cast<const float4*>(o_ + (w * block_q + of_block) * row + column);
      const float numbers[4] = {of_wave.x, of_wave.y, of_wave.z, of_wave.w};
#pragma unroll
      for (i32 i = 0; i < 4; ++i) x[i] = fmaf(end.weight[w], numbers[i], x[i]);
    }
  }

 private:
  float2* ends_;
  float *o_, *largest_;
};

/// By all threads: several have a row, and take groups of four columns in turn.
REGARD_DEVICE void store_rows(const PortableDecodeArguments& a, const Head& head, i32 first_row, i32 part,
                              const WaveSums& sums, const PortableScoreScale& scale) {
  constexpr i32 threads_of_row = threads / block_q;
  const i32 of_block = thread() / threads_of_row, of_row = thread() % threads_of_row;
  const HeadRow packed = PackedRows(a.pack_gqa).of(first_row + of_block),
                row = {head.head + packed.head, packed.row};
  if (row.row >= head.sequence.sq) return;
  const WaveSums::RowEnd sum = sums.end_of(of_block, scale.log2);
  const PortableSoftmaxEnd end = end_softmax(sum.row_max, sum.sum, scale.natural, sink_of(a, a, row.head));
  const bool is_part = a.splits > 1;
  const i64 index = is_part ? head.row_of_part(row, part) : 0;
  if (of_row == 0) {
    if (is_part)
      a.partial_lse[index] = end.lse;
    else if (a.lse.data != nullptr)
      *head.lse(row) = end.lse;
    if constexpr (config::row_max)
      *(is_part ? a.partial_row_max + index : head.row_max(row)) =
          row_max_of(sums.largest_of(of_block), end.lse, scale.natural);
  }
  const float factor = end.inverse * descale_keys(head, a.descale_v);
  u8* const o = head.o(row);
#pragma unroll 1
  for (i32 column = of_row * 4; column < config::dv; column += threads_of_row * 4) {
    float x[4];
    sums.add(x, sum, of_block, column);
#pragma unroll
    for (float& number : x) number *= factor;
    u8* const to = o + column * bytes_of<config::out>;
    if (is_part) {
      store_elements<DType::fp32>(reinterpret_cast<u8*>(a.partial_o + index * config::dv + column), x);
    } else if (reinterpret_cast<u64>(to) % (4 * bytes_of<config::out>) == 0) {
      store_elements<config::out>(to, x);
    } else {
#pragma unroll
      for (i32 i = 0; i < 4; ++i) store_element<config::out>(to, i, x[i]);
    }
  }
}

}  // namespace regard
