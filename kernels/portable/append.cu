// Writes new tokens into a KV cache: keys are rotated by rope, rows are converted to the cache's type. As the
// first stage of a forward it also rotates the queries. A group of lanes handles some heads of one token:
// their keys and values, or their queries. The grid has first all new tokens, then the queries.
#include "kernels/machine/pdl.h"
#include "kernels/portable/append_elements.h"
#include "kernels/portable/append_octets.h"

namespace regard {

/// Of keys, or of values.
REGARD_DEVICE Side side_of(const PortableAppendArguments& a, const Token& token, const CacheRow& to,
                           bool is_value, i64 head) {
  const Rows &added = is_value ? a.added.v : a.added.k, &cache = is_value ? a.v : a.k,
             &factors = is_value ? a.descale_v : a.descale_k;
  const i64 first = is_value ? first_of_v(a, to.row) : first_of_k(a, to.row);
  Side side;
  side.from = static_cast<const u8*>(added.data) +
              element_of(added, token.batch, head, token.row) * bytes_of<config::dtype>;
  side.to = static_cast<u8*>(cache.data) +
            (to.batch * cache.batch + head * cache.head + first) * bytes_of<config::kv>;
  side.columns = is_value ? columns_of_v(a) : columns_of_k(a);
  side.n = is_value ? a.dv : a.d;
  side.heads = to.batch < 0 ? 0 : static_cast<i32>(smaller(a.heads_together, a.hk - head));
  const bool rotates = !is_value && static_cast<Rope>(a.added.rope) != Rope::none && to.batch >= 0;
  side.table_row = rotates ? rope_row_of_new_token(a, token) : -1;
  side.factor = factors.data == nullptr ? nullptr
                                        : row_of<float>(factors, batch_of_factor(a, token, to), head,
                                                        has_token_factors(a) ? to.row : 0);
  side.next_from = added.head * bytes_of<config::dtype>, side.next_to = cache.head * bytes_of<config::kv>;
  side.next_factor = factors.head;
  return side;
}

REGARD_DEVICE Side side_of_query(const PortableAppendArguments& a, const Token& token, i64 head) {
  const Rows &from = a.added.q, &to = a.q;
  Side side;
  side.from = static_cast<const u8*>(from.data) +
              element_of(from, token.batch, head, token.row) * bytes_of<config::dtype>;
  side.to =
      static_cast<u8*>(to.data) + element_of(to, token.batch, head, token.row) * bytes_of<config::dtype>;
  side.columns = {0, a.d, 1};
  side.n = a.d;
  side.heads = static_cast<i32>(smaller(a.heads_together, a.hq - head));
  side.table_row = rope_row_of_query(a, token);
  side.factor = nullptr;
  side.next_from = from.head * bytes_of<config::dtype>, side.next_to = to.head * bytes_of<config::dtype>;
  side.next_factor = 0;
  return side;
}

/// Whether all rows of a tensor are aligned to 16 bytes, or to an octet if that is smaller.
template <DType dtype>
REGARD_DEVICE bool octets_are_aligned(const Rows& rows, i64 chunk = 0) {
  constexpr u64 bytes = bytes_of<dtype>, alignment = bytes == 1 ? 8 : 16;
  const u64 strides = static_cast<u64>(rows.batch | rows.head | rows.row | chunk);
  return (strides * bytes | reinterpret_cast<u64>(rows.data)) % alignment == 0;
}

/// Whether rope rotates whole octets.
REGARD_DEVICE bool rotates_octets(const PortableAppendArguments& a) {
  const i32 pairs = a.added.rotary / 2;
  switch (static_cast<Rope>(a.added.rope)) {
    case Rope::none:
      return true;
    case Rope::half:
      return pairs % width == 0 && pairs / width <= a.lanes_of_row;
    case Rope::interleaved:
      return a.added.rotary % width == 0;
  }
}

/// Whether rows of keys, or of values, are whole octets. The same for all threads.
REGARD_DEVICE bool has_octets(const PortableAppendArguments& a, bool is_value) {
  const i32 n = is_value ? a.dv : a.d;
  const bool fits = !has_token_factors(a) || n <= 2 * width * static_cast<i32>(a.lanes_of_row);
  if (n % width != 0 || !fits) return false;
  if (is_value)
    return octets_are_aligned<config::dtype>(a.added.v) &&
           (a.cache.v_chunk != 0 || octets_are_aligned<config::kv>(a.v));
  return rotates_octets(a) && (a.cache.k_chunk == 0 || elements_together(a) % width == 0) &&
         octets_are_aligned<config::dtype>(a.added.k) && octets_are_aligned<config::kv>(a.k, a.cache.k_chunk);
}

/// In the cache, or of queries. By a whole wave.
template <DType dtype, bool in_cache>
REGARD_DEVICE void write(const PortableAppendArguments& a, const Side& side, bool has_octets) {
  if (has_octets)
    write_octets<dtype, in_cache>(a, side);
  else
    write_elements<dtype, in_cache>(a, side);
}

REGARD_DEVICE void write_token(const PortableAppendArguments& a, i64 number, i64 first_head, bool exists) {
  const Token token = exists ? new_token(a, number) : Token{};
  const CacheRow to = exists ? row_of_new_token(a, token) : CacheRow{-1, 0};
  write<config::kv, true>(a, side_of(a, token, to, false, first_head), has_octets(a, false));
  write<config::kv, true>(a, side_of(a, token, to, true, first_head), has_octets(a, true));
}

REGARD_DEVICE void rotate_query(const PortableAppendArguments& a, i64 number, i64 first_head) {
  const Token token = query_token(a, number);
  if (token.sequence >= a.b) return;
  const bool octets = a.d % width == 0 && rotates_octets(a) && octets_are_aligned<config::dtype>(a.added.q) &&
                      octets_are_aligned<config::dtype>(a.q);
  write<config::dtype, false>(a, side_of_query(a, token, first_head), octets);
}

constexpr i32 threads = config::warps * wave;
/// Blocks of a multiprocessor: 20 warps leave 96 registers for a thread.
constexpr i32 resident_blocks = 20 / config::warps;

}  // namespace regard

REGARD_KERNEL(regard::PortableAppendArguments, regard::threads, regard::resident_blocks) {
  using namespace regard;
  const PortableAppendArguments& a = arguments;
  launch_dependent_grids();
  const u32 lanes_of_row = static_cast<u32>(a.lanes_of_row), together = static_cast<u32>(a.heads_together);
  const u32 parts_of_token = (static_cast<u32>(a.hk) + together - 1) / together;
  const u32 rows_of_block = threads / lanes_of_row;
  const u32 row_groups = static_cast<u32>(count_of_new_tokens(a)) * parts_of_token;
  const u32 blocks_of_added = (row_groups + rows_of_block - 1) / rows_of_block;
  u32 group = block_index() * rows_of_block + thread() / lanes_of_row;
  if (block_index() < blocks_of_added) {
    write_token(a, group / parts_of_token, group % parts_of_token * together, group < row_groups);
    return;
  }
  group -= blocks_of_added * rows_of_block;
  const u32 parts_of_query = (static_cast<u32>(a.hq) + together - 1) / together;
  const u32 query = group / parts_of_query;
  if constexpr (bytes_of<config::dtype> > 1)
    if (query < static_cast<u32>(a.tq)) rotate_query(a, query, group % parts_of_query * together);
}
