// The range of keys that each row sees by a mask that is a function, for the stages after this one. A block
// has 64 query rows of a sequence, which are the lanes of each step.
#pragma once

#include "kernels/cpu/function_rows.h"
#include "kernels/range.h"
#include "kernels/sequence.h"

namespace regard::generic {

class RangeWriter : public FunctionRows {
 public:
  /// `memory`: GenericLayout::function_bytes.
  RangeWriter(const Arguments& a, const FunctionCall* call, float* memory) : FunctionRows(a, call, memory) {}

  void run(i64 block, i32* ranges) {
    constexpr i64 rows = GenericLayout::tile_rows;
    static_assert(rows == keys, "each row is a lane");
    const i64 tiles = GenericLayout::tiles(a_.sq, rows), first = block % tiles * rows;
    const Sequence sequence = sequence_of(a_, block / tiles);
    const i64 count = smaller(rows, sequence.sq - first);
    if (count <= 0) return;
    const FunctionPlace place{sequence.batch, 0, 0, first, 0, sequence, /*lanes_are_rows=*/true};
    for (i32 i = 0; i < call().count; ++i) compute(place, nullptr, i);
    const u32 *const begins = row(call().begin), *const ends = row(call().end);
    i32* const to = ranges + sequence.batch * a_.ranges_batch + 2 * (sequence.first_q + first);
    for (i64 i = 0; i < count; ++i) {
      const Range32 range = within({function::signed_of(begins[i]), function::signed_of(ends[i])},
                                   static_cast<i32>(sequence.sk));
      to[2 * i] = range.begin, to[2 * i + 1] = range.end;
    }
  }
};

}  // namespace regard::generic
