// Merges what the parts of a split key range gave: O = sum of O_part * exp(LSE_part - LSE). The learned sink,
// which no part knows of, is added here, once. A wave has one row of one (batch, head); the grid is
// b * hq * ceil(sq / key::warps) blocks.
#include "kernels/head.h"
#include "kernels/portable/cuda/element.h"

namespace regard {

/// log of the sum of exp over the parts and the sink; -infinity when all are. The same in every lane.
REGARD_DEVICE float merged_lse(const Head& head, i64 place, float sink) {
  const Arguments& a = head.arguments;
  float maximum = sink;
  for (i64 split = 0; split < a.splits; ++split)
    maximum = fmaxf(maximum, a.partial_lse[split * head.row_count() + place]);
  if (maximum == -infinity) return maximum;
  float sum = ::expf(sink - maximum);
  for (i64 split = 0; split < a.splits; ++split)
    sum += ::expf(a.partial_lse[split * head.row_count() + place] - maximum);
  return maximum + logf(sum);
}

REGARD_DEVICE void merge_row(const Head& head, i64 row) {
  const Arguments& a = head.arguments;
  const i64 place = head.row_number(row);
  const float lse = merged_lse(head, place, a.sink ? a.sink[head.head] : -infinity);
  if (a.lse.data && lane() == 0) *head.lse(row) = lse;

  for (i64 column = lane(); column < a.dv; column += wave) {
    float sum = 0;
    for (i64 split = 0; split < a.splits; ++split) {
      const i64 partial = split * head.row_count() + place;
      // A part without a visible key has the weight 0; its O is 0 too.
      const float part = a.partial_lse[partial];
      const float weight = part == -infinity ? 0.0f : ::expf(part - lse);
      sum = fmaf(weight, a.partial_o[partial * a.dv + column], sum);
    }
    store_element<key::out>(head.o(row), column, sum);
  }
}

}  // namespace regard

extern "C" __global__ void __launch_bounds__(regard::key::warps* regard::wave)
    REGARD_SYMBOL(const __grid_constant__ regard::Arguments arguments) {
  using namespace regard;
  const i64 row_blocks = ceil_divide(arguments.sq, key::warps), index = blockIdx.x / row_blocks;
  const i64 row = blockIdx.x % row_blocks * key::warps + thread() / wave;
  const Head head(arguments, index / arguments.hq, index % arguments.hq);
  if (row < head.sequence.sq) merge_row(head, row);
}
