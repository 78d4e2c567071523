// Writes the visibility bits of a mask that is a function, for the stages after this one: 32 keys a word. It
// is compiled for the function. A thread writes a few words of one row, so that what depends on the row alone
// is computed once; neighbouring threads have neighbouring rows, and read the same keys at the same time.
#include "kernels/machine/thread.h"
#include "kernels/portable/mask_place.h"
#include "kernels/sequence.h"
// The text of the function: last, as it uses the other files.
#include "kernels/function/generated.h"

namespace regard {

constexpr i32 mask_threads = mask_warps * wave, keys_of_thread = 32 * mask_words;

/// The row and the first key of a thread.
struct MaskWork {
  i64 batch, head, row, first_key;

  REGARD_DEVICE explicit MaskWork(const PortableBitsArguments& a) {
    const u32 chunks = static_cast<u32>(ceil_divide(a.sk, keys_of_thread)),
              tiles = static_cast<u32>(ceil_divide(a.sq, mask_threads)), heads = a.head != 0 ? a.hq : 1;
    u32 index = block_index();
    first_key = i64{index % chunks} * keys_of_thread;
    index /= chunks;
    row = i64{index % tiles} * mask_threads + thread();
    index /= tiles;
    head = index % heads;
    batch = index / heads;
  }
};

REGARD_DEVICE MaskPlace place_of(const PortableBitsArguments& a, const Sequence& sequence,
                                 const MaskWork& work) {
  const i64 first_q = a.offsets_q ? sequence.first_q : work.batch * a.sq,
            first_k = a.offsets_k ? sequence.first_k : work.batch * a.sk;
  MaskPlace at;
  at.b = static_cast<i32>(work.batch), at.h = static_cast<i32>(work.head);
  at.hk = static_cast<i32>(work.head / (a.hq / a.hk));
  at.q = static_cast<i32>(work.row), at.p = static_cast<i32>(work.row + sequence.bottom_right());
  at.sq = static_cast<i32>(sequence.sq), at.sk = static_cast<i32>(sequence.sk);
  at.tq = static_cast<i32>(first_q + work.row);
  at.kv = static_cast<i32>(work.first_key), at.tk = static_cast<i32>(first_k + work.first_key);
  return at;
}

}  // namespace regard

REGARD_KERNEL(regard::PortableBitsArguments, regard::mask_threads, 4) {
  using namespace regard;
  const PortableBitsArguments& a = arguments;
  const MaskWork work(a);
  const Sequence sequence = sequence_of<i64>(a, work.batch);
  if (work.row >= sequence.sq || work.first_key >= sequence.sk) return;
  MaskPlace at = place_of(a, sequence, work);
  const RowValues row = row_values(a.call, at);
  u32* const words =
      a.words + work.batch * a.batch + work.head * a.head + work.row * a.row + work.first_key / 32;
  const i64 count = smaller<i64>(mask_words, ceil_divide(sequence.sk - work.first_key, 32));
#pragma unroll 1
  for (i64 word = 0; word < count; ++word) {
    u32 bits = 0;
#pragma unroll 1
    for (i32 bit = 0; bit < 32; ++bit, ++at.kv, ++at.tk) bits |= u32{keep(a.call, at, row)} << bit;
    words[word] = bits;
  }
}
