// Writes new tokens into a KV cache: keys are rotated by rope, rows are converted to the cache's type. As the
// first stage of a forward it also rotates the queries. A group of lanes handles some heads of one token:
// their keys and values, or their queries. The grid has first all new tokens, then the queries.
#include "kernels/machine/pdl.h"
#include "kernels/portable/append_elements.h"
#include "kernels/portable/append_octets.h"

namespace regard {

/// The source of a token's rows; where they go is not known yet.
REGARD_DEVICE Side side_of(const Rows& from, const Rows& to, const Rows& factors, i64 bytes_of_result,
                           const Token& token, i64 head, i64 heads) {
  constexpr i64 bytes = bytes_of<config::dtype>;
  Side side;
  side.from = static_cast<const u8*>(from.data) + element_of(from, token.batch, head, token.row) * bytes;
  side.next_from = from.head * bytes, side.next_to = to.head * bytes_of_result;
  side.factor = static_cast<float*>(factors.data), side.has_factors = factors.data != nullptr;
  side.next_factor = factors.head;
  side.heads = static_cast<i32>(heads);
  side.to = static_cast<u8*>(to.data), side.table_row = -1;
  return side;
}
/// A token's keys; with `latent`, only the columns of K that are V.
REGARD_DEVICE Side keys_of(const PortableAppendArguments& a, const Token& token, i64 head, i64 heads,
                           bool latent) {
  Side side = side_of(a.added.k, a.k, a.descale_k, bytes_of<config::kv>, token, head, heads);
  side.n = latent ? a.dv : a.d, side.columns = columns_of_k(a);
  return side;
}
/// A token's values; with `latent`, the columns of K after those of V.
REGARD_DEVICE Side values_of(const PortableAppendArguments& a, const Token& token, i64 head, i64 heads,
                             bool latent) {
  if (latent) {
    Side side = side_of(rows_from_column(a.added.k, a.dv, a.dtype), columns_after_v(a), a.descale_v,
                        bytes_of_dtype(type_after_v(a)), token, head, heads);
    side.n = a.d - a.dv, side.columns = columns_of_k(a);
    return side;
  }
  Side side = side_of(a.added.v, a.v, a.descale_v, bytes_of<config::kv>, token, head, heads);
  side.n = a.dv, side.columns = columns_of_v(a);
  return side;
}

/// Finds where the keys and values of a new token go.
REGARD_DEVICE void put_into_cache(Side& k, Side& v, const PortableAppendArguments& a, const Token& token,
                                  i64 head, bool latent) {
  const CacheRow to = k.heads > 0 ? row_of_new_token(a, token) : CacheRow{-1, 0};
  if (to.batch < 0) k.heads = 0, v.heads = 0;
  constexpr i64 bytes = bytes_of<config::kv>;
  const i64 bytes_of_v = latent ? bytes_of_dtype(type_after_v(a)) : bytes;
  const Rows of_v = latent ? columns_after_v(a) : a.v;
  const i64 first_of_values = latent ? to.row * of_v.row : first_of_v(a, to.row);
  k.to += (to.batch * a.k.batch + head * a.k.head + first_of_k(a, to.row)) * bytes;
  v.to += (to.batch * of_v.batch + head * of_v.head + first_of_values) * bytes_of_v;
  const i64 batch = batch_of_factor(a, token, to), row = has_token_factors(a) ? to.row : 0;
  k.factor += element_of(a.descale_k, batch, head, row);
  v.factor += element_of(a.descale_v, batch, head, row);
}

/// Finds the row of the tables that rotates a new token's keys.
REGARD_DEVICE void find_angles(Side& side, const PortableAppendArguments& a, const Token& token) {
  if (static_cast<Rope>(a.added.rope) != Rope::none && side.heads > 0)
    side.table_row = rope_row_of_new_token(a, token);
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
      return pairs % width == 0 && pairs / width <= lanes_of(a);
    case Rope::interleaved:
      return a.added.rotary % width == 0;
  }
}

/// Whether rows of keys and values are whole octets. The same for all threads.
REGARD_DEVICE bool have_octets(const PortableAppendArguments& a) {
  const i32 longest = larger(a.d, a.dv);
  const bool fit = !has_token_factors(a) || longest <= 2 * width * lanes_of(a);
  const bool is_near = a.cache.k_chunk * a.d < 1 << 28;  // distances in bytes have 32 bits
  const bool k_together = a.cache.k_chunk == 0 || (elements_together(a) % width == 0 && is_near);
  return a.d % width == 0 && a.dv % width == 0 && fit && k_together && rotates_octets(a) &&
         octets_are_aligned<config::dtype>(a.added.k) && octets_are_aligned<config::dtype>(a.added.v) &&
         octets_are_aligned<config::kv>(a.k, a.cache.k_chunk) &&
         (a.cache.v_chunk != 0 || octets_are_aligned<config::kv>(a.v));
}

/// Writes a token of any alignment, number by number: the code is small rather than fast.
REGARD_DEVICE void write_token_in_elements(const PortableAppendArguments& a, const Token& token, i64 head,
                                           i64 heads) {
  const bool latent = has_latent_tokens(a);
  Side k = keys_of(a, token, head, heads, latent), v = values_of(a, token, head, heads, latent);
  put_into_cache(k, v, a, token, head, latent);
  const i64 row =
      k.heads > 0 && static_cast<Rope>(a.added.rope) != Rope::none ? rope_row_of_new_token(a, token) : -1;
  k.table_row = latent ? -1 : row, v.table_row = latent ? row : -1;
  if (has_column_factors(a)) {
    k.n = factor_columns;
#pragma unroll 1
    for (i32 column = 0; column < a.dv; column += factor_columns) {
      write_elements<config::kv, true>(a, k);
      k.from += factor_columns * bytes_of<config::dtype>, k.to += factor_columns * bytes_of<config::kv>;
      ++k.factor;
    }
    write_elements<config::dtype, false>(a, v);
    return;
  }
#pragma unroll 1
  for (i32 side = 0; side < 2; ++side, k = v) write_elements<config::kv, true>(a, k);
}

REGARD_DEVICE void write_token(const PortableAppendArguments& a, i64 number, i64 head, bool exists) {
  const Token token = exists ? new_token(a, number) : Token{};
  const i64 heads = exists ? smaller<i64>(heads_of(a), a.hk - head) : 0;
  if (has_latent_tokens(a) || !have_octets(a)) return write_token_in_elements(a, token, head, heads);
  Side k = keys_of(a, token, head, heads, false), v = values_of(a, token, head, heads, false);
  const i32 lanes_of_row = lanes_of(a);
#pragma unroll 1
  for (i32 block = 0; block < larger(a.d, a.dv); block += 2 * width * lanes_of_row) {
    const Place of_k = place_of_lane(block, lanes_of_row, block == 0 ? lanes_of_halves(a) : 0),
                of_v = place_of_lane(block, lanes_of_row, 0);
    Source from_k = source_of(k, of_k), from_v = source_of(v, of_v);
    // Loads do not depend on where the token goes, so they are issued before that is looked up.
    Loaded keys, values;
    load_octets(keys, from_k, k.heads > 0);
    load_octets(values, from_v, v.heads > 0);
    if (block == 0) {
      put_into_cache(k, v, a, token, head, false);
      find_angles(k, a, token);
    }
    Destination to_k = destination_of<config::kv>(k, of_k), to_v = destination_of<config::kv>(v, of_v);
    Angles angles;
    if (k.table_row >= 0 && of_k.first[0] < a.added.rotary) load_angles(angles, a.added, k.table_row, of_k);
    float inverse_k = given_inverse(a, k, 0), inverse_v = given_inverse(a, v, 0);
#pragma unroll 1
    for (i32 i = 0;;) {
      store_octets<config::kv, true>(a, v, i, of_v, angles, inverse_v, values, from_v, to_v);
      store_octets<config::kv, true>(a, k, i, of_k, angles, inverse_k, keys, from_k, to_k);
      if (++i == heads_of(a)) break;
      from_k.first += k.next_from, from_v.first += v.next_from;
      load_octets(keys, from_k, i < k.heads);
      load_octets(values, from_v, i < v.heads);
      to_k.first += k.next_to, to_v.first += v.next_to;
      if (k.next_factor != 0) inverse_k = given_inverse(a, k, i);
      if (v.next_factor != 0) inverse_v = given_inverse(a, v, i);
    }
  }
}

REGARD_DEVICE void rotate_query(const PortableAppendArguments& a, i64 number, i64 head) {
  const Token token = query_token(a, number);
  if (token.sequence >= a.b) return;
  Side side = side_of(a.added.q, a.q, Rows{}, bytes_of<config::dtype>, token, head,
                      smaller<i64>(heads_of(a), a.hq - head));
  side.n = a.d, side.columns = {0, a.d, 1};
  side.to =
      static_cast<u8*>(a.q.data) + element_of(a.q, token.batch, head, token.row) * bytes_of<config::dtype>;
  side.table_row = rope_row_of_query(a, token);
  const i32 first = a.added.first_rotated;
  const bool octets = first == 0 && a.d % width == 0 && rotates_octets(a) &&
                      octets_are_aligned<config::dtype>(a.added.q) && octets_are_aligned<config::dtype>(a.q);
  if (!octets) {
    // The columns before the rotated ones are a row of their own.
#pragma unroll 1
    for (i32 column = 0; column <= first; column += larger(first, 1)) {
      Side part = side;
      part.n = column < first ? first : a.d - first, part.columns = {0, part.n, 1};
      part.from += column * bytes_of<config::dtype>, part.to += column * bytes_of<config::dtype>;
      if (column < first) part.table_row = -1;
      write_elements<config::dtype, false>(a, part);
    }
    return;
  }
  const i32 lanes_of_row = lanes_of(a);
#pragma unroll 1
  for (i32 block = 0; block < a.d; block += 2 * width * lanes_of_row) {
    const Place place = place_of_lane(block, lanes_of_row, block == 0 ? lanes_of_halves(a) : 0);
    Angles angles;
    if (place.first[0] < a.added.rotary) load_angles(angles, a.added, side.table_row, place);
    Source from = source_of(side, place);
    Destination to = destination_of<config::dtype>(side, place);
#pragma unroll 1
    for (i32 i = 0; i < side.heads; ++i) {
      Loaded loaded;
      load_octets(loaded, from, true);
      store_octets<config::dtype, false>(a, side, i, place, angles, 1, loaded, from, to);
      from.first += side.next_from, to.first += side.next_to;
    }
  }
}

constexpr i32 threads = config::warps * wave;
/// The blocks of a multiprocessor: 16 warps leave 128 registers for a thread, and 8 waves of 64 lanes 256.
/// With 20 warps, or 12 such waves, the kernel spills.
constexpr i32 resident_warps = wave == 64 ? 8 : 16;
constexpr i32 resident_blocks = resident_warps / config::warps;

}  // namespace regard

REGARD_KERNEL(regard::PortableAppendArguments, regard::threads, regard::resident_blocks) {
  using namespace regard;
  const PortableAppendArguments& a = arguments;
  launch_dependent_grids();
  const u32 lane_bits = static_cast<u32>(a.lane_bits), head_bits = static_cast<u32>(a.head_bits);
  const auto parts = [&](i64 heads) {
    return (static_cast<u32>(heads) + (1u << head_bits) - 1) >> head_bits;
  };
  const u32 parts_of_token = parts(a.hk), rows_of_block = threads >> lane_bits;
  const u32 row_groups = static_cast<u32>(count_of_new_tokens(a)) * parts_of_token;
  const u32 blocks_of_added = static_cast<u32>(((u64{row_groups} << lane_bits) + threads - 1) / threads);
  u32 group = block_index() * rows_of_block + (thread() >> lane_bits);
  if (block_index() < blocks_of_added) {
    write_token(a, group / parts_of_token, group % parts_of_token << head_bits, group < row_groups);
    return;
  }
  if constexpr (bytes_of<config::dtype> > 1) {
    group -= blocks_of_added * rows_of_block;
    const u32 parts_of_query = parts(a.hq), query = group / parts_of_query;
    if (query < static_cast<u32>(a.tq)) rotate_query(a, query, group % parts_of_query << head_bits);
  }
}
