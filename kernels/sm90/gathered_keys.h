// Tiles of K or V whose rows are in pages too small for boxes. Threads copy 16 bytes each, as the tensor
// memory accelerator takes as long for a box of one row as for one of eight.
#pragma once

#include "kernels/sm90/paged_rows.h"
#include "kernels/sm90/ptx/copy.h"

namespace regard {

/// The places of a tile's rows; each thread of a warp has some of them.
class GatheredRows {
 public:
  /// Reads the page table, but waits for nothing: the next tile's rows are found while a tile is copied.
  REGARD_DEVICE GatheredRows(const PagedRows& paged, i32 first_key) {
#pragma unroll
    for (i32 i = 0; i < count; ++i) {
      const i32 row = i * wave + static_cast<i32>(threadIdx.x % wave), key = first_key + row;
      page_[i] = row_[i] = -1;
      if (row >= block_k || !paged.needed(key, key + 1)) continue;
      const PagedRows::Place place = paged.find(key);
      page_[i] = place.page, row_[i] = place.row;
    }
  }

  /// Copies the rows; called by a whole warp, of which eight threads copy a row of a box, swizzled as TMA
  /// would. Bytes past `row_bytes` of a tile's row become zeros, as do keys that no query row sees. `full`
  /// expects all threads.
  REGARD_DEVICE void copy(const Rows& rows, i32 kv_head, u32 to, i32 bytes, i32 row_bytes,
                          Barrier& full) const {
    const i32 lane = threadIdx.x % wave, chunk = lane % 8;
#pragma unroll
    for (i32 i = 0; i < count; ++i) {
      const u64 mine = row_[i] < 0 ? 0
                                   : reinterpret_cast<u64>(rows.data) +
                                         element_of(rows, page_[i], kv_head, row_[i]) * element_bytes;
#pragma unroll 4
      for (i32 row = lane / 8; row < wave; row += 4) {
        if (block_k % wave != 0 && i * wave + row >= block_k) break;
        const u32 low = __shfl_sync(whole_warp, static_cast<u32>(mine), row),
                  high = __shfl_sync(whole_warp, static_cast<u32>(mine >> 32), row);
        const u64 from = u64{high} << 32 | low;
        const u32 address = to + (i * wave + row) * box_bytes + (chunk ^ row % 8) * 16;
#pragma unroll 2
        for (i32 part = 0; part < bytes / (block_k * box_bytes); ++part) {
          const i32 column = part * box_bytes + chunk * 16;
          copy_16_bytes(address + part * block_k * box_bytes, reinterpret_cast<const u8*>(from + column),
                        from != 0 && column < row_bytes ? 16 : 0);
        }
      }
    }
    full.arrive_after_copies();
  }

 private:
  static constexpr i32 count = (block_k + wave - 1) / wave;
  i32 page_[count], row_[count];  // page -1: no query row sees the key
};

}  // namespace regard
