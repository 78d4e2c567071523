// Writes the range of keys that each row sees by a mask that is a function, for the stages after this one. It
// is compiled for the function. Heads share ranges, and so do sequences unless the mask or their lengths
// differ.
#include "kernels/machine/number.h"
#include "kernels/machine/thread.h"
#include "kernels/portable/mask_place.h"
#include "kernels/portable/ranges_schedule.h"
#include "kernels/range.h"
#include "kernels/sequence.h"
// The text of the function: last, as it uses the other files.
#include "kernels/function/generated_range.h"

namespace regard {

REGARD_DEVICE MaskPlace place_of_row(const Arguments& a, const Sequence& sequence, i64 row) {
  MaskPlace at = {};
  at.b = static_cast<i32>(sequence.batch);
  at.q = static_cast<i32>(row), at.p = static_cast<i32>(row + sequence.bottom_right());
  at.sq = static_cast<i32>(sequence.sq), at.sk = static_cast<i32>(sequence.sk);
  at.tq = static_cast<i32>((a.offsets_q ? sequence.first_q : sequence.batch * a.sq) + row);
  return at;
}

}  // namespace regard

REGARD_KERNEL(regard::PortableRangesArguments, regard::range_threads) {
  using namespace regard;
  // In 32 bits, which hold any grid, because a 64-bit division is a function call.
  const u32 blocks = (static_cast<u32>(arguments.sq) + range_threads - 1) / range_threads;
  const i64 row = i64{block_index() % blocks} * range_threads + thread();
  const Sequence sequence = sequence_of<i64>(arguments, block_index() / blocks);
  if (row >= sequence.sq) return;
  const Range32 all = row_range(arguments.call, place_of_row(arguments, sequence, row));
  const Range32 range = within({all.begin, all.end}, static_cast<i32>(sequence.sk));
  i32* const to =
      arguments.ranges_to_write + sequence.batch * arguments.ranges_batch + 2 * (sequence.first_q + row);
  to[0] = range.begin, to[1] = range.end;
}
