// Writes new tokens into a KV cache: keys are rotated by rope, rows are converted to the cache's type. As the
// first stage of a forward it also rotates the queries. A group of lanes handles rows of one token: its keys,
// its values, or its queries, of `heads_together` heads one after the other. The grid has first the keys and
// values of all new tokens, then the queries.
#include "kernels/machine/pdl.h"
#include "kernels/new_token.h"
#include "kernels/portable/append_schedule.h"
#include "kernels/portable/element.h"

namespace regard {

constexpr i32 width = append_width;

/// The largest number of the cache's type, if it has 8 bits.
constexpr float largest_number = config::kv == DType::int8 ? 127 : largest_fp8<config::kv>;

/// Elements first, first + 1, ... of a row; zeros outside of its n elements.
template <DType dtype, i32 count>
REGARD_DEVICE void load_columns(float (&x)[count], const u8* row, i32 first, i32 n) {
  const u8* from = row + static_cast<i64>(first) * bytes_of<dtype>;
  if constexpr (bytes_of<dtype> > 1) {
    constexpr i32 alignment = smaller(count * bytes_of<dtype>, 16);
    if (first >= 0 && first + count <= n && reinterpret_cast<u64>(from) % alignment == 0) {
      load_elements<dtype>(x, from);
      return;
    }
  }
#pragma unroll
  for (i32 i = 0; i < count; ++i)
    x[i] = first + i >= 0 && first + i < n ? load_element<dtype>(from, i) : 0.0f;
}

/// A row of a rope table, which is in Q's type or fp32.
template <i32 count>
REGARD_DEVICE void load_table(float (&x)[count], const NewTokens& added, const Rows& table, i64 row,
                              i32 first) {
  const i32 pairs = added.rotary / 2;
  const u8* const memory = static_cast<const u8*>(table.data);
  if (static_cast<DType>(added.rope_type) == DType::fp32)
    load_columns<DType::fp32>(x, memory + row * table.row * 4, first, pairs);
  else
    load_columns<config::dtype>(x, memory + row * table.row * bytes_of<config::dtype>, first, pairs);
}

/// x has the columns from `first` on of the row at `from`.
REGARD_DEVICE void rotate_interleaved(float (&x)[width], const NewTokens& added, i32 first, i64 table_row) {
  float cos[width / 2], sin[width / 2];
  load_table(cos, added, added.cos, table_row, first / 2);
  load_table(sin, added, added.sin, table_row, first / 2);
#pragma unroll
  for (i32 i = 0; i < width; i += 2) {
    if (first + i >= added.rotary) continue;
    const float a = x[i], b = x[i + 1];
    x[i] = a * cos[i / 2] - b * sin[i / 2];
    x[i + 1] = a * sin[i / 2] + b * cos[i / 2];
  }
}

REGARD_DEVICE void rotate_halves(float (&x)[width], const NewTokens& added, const u8* from, i32 first,
                                 i64 table_row, i32 n) {
  const i32 pairs = added.rotary / 2;
  // A lane's columns can be on both sides of the middle.
#pragma unroll 1
  for (i32 side = first < pairs ? 0 : 1; side < (first + width > pairs ? 2 : 1); ++side) {
    float other[width], cos[width], sin[width];
    const i32 sign = side == 0 ? 1 : -1, first_pair = first - side * pairs;
    load_columns<config::dtype>(other, from, first + sign * pairs, n);
    load_table(cos, added, added.cos, table_row, first_pair);
    load_table(sin, added, added.sin, table_row, first_pair);
#pragma unroll
    for (i32 i = 0; i < width; ++i) {
      const bool rotated = first_pair + i >= 0 && first_pair + i < pairs;
      if (rotated) x[i] = x[i] * cos[i] - static_cast<float>(sign) * other[i] * sin[i];
    }
  }
}

/// Some lanes' row: where it is, where it goes, and what happens on the way.
struct Row {
  const u8* from;
  u8* to;
  Columns columns;  // of `to`
  i32 n;
  i64 table_row;  // negative: no rope
};

REGARD_DEVICE void load_rotated(float (&x)[width], const Arguments& a, const Row& row, i32 first) {
  load_columns<config::dtype>(x, row.from, first, row.n);
  if (row.table_row < 0 || first >= a.added.rotary) return;
  if (static_cast<Rope>(a.added.rope) == Rope::interleaved)
    rotate_interleaved(x, a.added, first, row.table_row);
  else
    rotate_halves(x, a.added, row.from, first, row.table_row, row.n);
}

/// Rounded to nearest even; numbers beyond the largest become the largest.
template <DType dtype>
REGARD_DEVICE u32 eight_bits_of(float x) {
  if constexpr (dtype == DType::int8) {
    const float within = at_most(fmaxf(x == x ? x : 0.0f, -128.0f), 127.0f);
    return bits_as<u32>(within + 0x1.8p23f) & 0xffu;  // the sum has the integer's digits at the bottom
  } else {
    return fp8_of<dtype>(x);
  }
}

/// Of 8 bytes each.
template <DType dtype>
REGARD_DEVICE void store_quantized(u8* to, const float (&x)[width]) {
  u32 words[2] = {};
#pragma unroll
  for (i32 i = 0; i < width; ++i) words[i / 4] |= eight_bits_of<dtype>(x[i]) << 8 * (i % 4);
  *reinterpret_cast<uint2*>(to) = uint2{words[0], words[1]};
}

template <DType dtype>
REGARD_DEVICE void store_one(u8* to, float x) {
  if constexpr (bytes_of<dtype> == 1)
    *to = static_cast<u8>(eight_bits_of<dtype>(x));
  else
    store_element<dtype>(to, 0, x);
}

/// Whether a lane's columns are neighbours at an aligned address.
template <DType dtype>
REGARD_DEVICE bool together_at(const u8* to, const Row& row, i32 first) {
  constexpr i32 alignment = smaller(width * bytes_of<dtype>, 16);
  return row.columns.step == 1 && row.columns.run >= width && first + width <= row.n &&
         reinterpret_cast<u64>(to) % alignment == 0;
}

template <DType dtype>
REGARD_DEVICE void store_columns(const Row& row, i32 first, const float (&x)[width]) {
  u8* const to = row.to + row.columns.element(first) * bytes_of<dtype>;
  if (together_at<dtype>(to, row, first)) {
    if constexpr (bytes_of<dtype> == 1)
      store_quantized<dtype>(to, x);
    else
      store_elements<dtype>(to, x);
    return;
  }
#pragma unroll
  for (i32 i = 0; i < width; ++i)
    if (first + i < row.n) store_one<dtype>(row.to + row.columns.element(first + i) * bytes_of<dtype>, x[i]);
}

/// The bytes as they are, where both types are the same.
REGARD_DEVICE void copy_columns(const Row& row, i32 first) {
  constexpr i32 bytes = bytes_of<config::kv>;
  const u8* const from = row.from + first * bytes;
  u8* const to = row.to + row.columns.element(first) * bytes;
  constexpr i32 at_once = smaller(width * bytes, 16);
  if (together_at<config::kv>(to, row, first) && reinterpret_cast<u64>(from) % at_once == 0) {
#pragma unroll
    for (i32 i = 0; i < width * bytes; i += at_once) copy_bytes<at_once>(to + i, from + i);
    return;
  }
#pragma unroll
  for (i32 i = 0; i < width; ++i) {
    if (first + i >= row.n) continue;
    u8* const one = row.to + row.columns.element(first + i) * bytes;
    if constexpr (bytes == 1)
      *one = from[i];
    else
      copy_bytes<bytes>(one, from + i * bytes);
  }
}

/// The largest absolute value of some lanes' row, in all of them. By a whole wave.
REGARD_DEVICE float largest_of_row(const Arguments& a, const Row& row, i32 lanes_of_row) {
  float most = 0;
#pragma unroll 1
  for (i32 first = lane() % lanes_of_row * width; first < row.n; first += lanes_of_row * width) {
    float x[width];
    load_rotated(x, a, row, first);
#pragma unroll
    for (i32 i = 0; i < width; ++i) most = fmaxf(most, fabsf(x[i]));
  }
#pragma unroll 1
  for (i32 distance = lanes_of_row / 2; distance > 0; distance /= 2)
    most = fmaxf(most, from_lane(most, lane() ^ distance));
  return most;
}

/// to = from / factor
template <DType dtype>
REGARD_DEVICE void convert_row(const Arguments& a, const Row& row, i32 lanes_of_row, float factor) {
  const float inverse = 1.0f / factor;
#pragma unroll 1
  for (i32 first = lane() % lanes_of_row * width; first < row.n; first += lanes_of_row * width) {
    float x[width];
    load_rotated(x, a, row, first);
    if constexpr (bytes_of<dtype> == 1) {
#pragma unroll
      for (i32 i = 0; i < width; ++i) x[i] *= inverse;
    }
    store_columns<dtype>(row, first, x);
  }
}

/// Rows of one token in the cache, one for each head, and where they come from. `row` and `factor` are of the
/// next head.
struct Side {
  Row row;
  float* factor;                        // null: 1
  i64 next_from, next_to, next_factor;  // bytes, bytes, elements
};

/// Of keys, or of values.
REGARD_DEVICE Side side_of(const Arguments& a, const Token& token, const CacheRow& to, bool is_value,
                           i64 head) {
  const Rows &added = is_value ? a.added.v : a.added.k, &cache = is_value ? a.v : a.k,
             &factors = is_value ? a.descale_v : a.descale_k;
  const i64 first = is_value ? first_of_v(a, to.row) : first_of_k(a, to.row);
  Side side;
  side.row.from = static_cast<const u8*>(added.data) +
                  element_of(added, token.batch, head, token.row) * bytes_of<config::dtype>;
  side.row.to = static_cast<u8*>(cache.data) +
                (to.batch * cache.batch + head * cache.head + first) * bytes_of<config::kv>;
  side.row.columns = is_value ? columns_of_v(a) : columns_of_k(a);
  side.row.n = is_value ? a.dv : a.d;
  const bool rotates = !is_value && static_cast<Rope>(a.added.rope) != Rope::none && to.batch >= 0;
  side.row.table_row = rotates ? rope_row_of_new_token(a, token) : -1;
  const bool of_row = static_cast<Descale>(a.descale) == Descale::token;
  side.factor = factors.data == nullptr
                    ? nullptr
                    : row_of<float>(factors, batch_of_factor(a, token, to), head, of_row ? to.row : 0);
  side.next_from = added.head * bytes_of<config::dtype>, side.next_to = cache.head * bytes_of<config::kv>;
  side.next_factor = factors.head;
  return side;
}

/// By a whole wave; a row of another token, or none, for each group of lanes.
REGARD_DEVICE void write_row(const Arguments& a, i32 lanes_of_row, const Row& row, float* factor_in_memory) {
  constexpr bool same_type = config::dtype == config::kv;  // 8-bit tokens have the factors of the cache
  float factor = 1;
  if (static_cast<Descale>(a.descale) == Descale::token) {
    constexpr float smallest_normal = 0x1p-126f;
    const float most = same_type ? 0 : largest_of_row(a, row, lanes_of_row) / largest_number;
    if (most >= smallest_normal) factor = most;
    if (row.n > 0 && lane() % lanes_of_row == 0) *factor_in_memory = factor;
  } else if (!same_type && factor_in_memory != nullptr && row.n > 0) {
    factor = *factor_in_memory;
  }
  if (same_type && row.table_row < 0) {
#pragma unroll 1
    for (i32 first = lane() % lanes_of_row * width; first < row.n; first += lanes_of_row * width)
      copy_columns(row, first);
    return;
  }
  convert_row<config::kv>(a, row, lanes_of_row, factor);
}

REGARD_DEVICE void write_token(const PortableAppendArguments& a, i64 number, bool is_value, i64 first_head,
                               bool exists) {
  const Token token = exists ? new_token(a, number) : Token{};
  const CacheRow to = exists ? row_of_new_token(a, token) : CacheRow{-1, 0};
  Side side = side_of(a, token, to, is_value, first_head);
  const i32 columns = side.row.n;
#pragma unroll 1
  for (i64 i = 0; i < a.heads_together; ++i) {
    side.row.n = to.batch >= 0 && first_head + i < a.hk ? columns : 0;
    write_row(a, static_cast<i32>(a.lanes_of_row), side.row, side.factor);
    side.row.from += side.next_from, side.row.to += side.next_to;
    if (side.factor != nullptr) side.factor += side.next_factor;
  }
}

REGARD_DEVICE void rotate_query(const PortableAppendArguments& a, i64 number, i64 first_head) {
  const Token token = query_token(a, number);
  if (token.sequence >= a.b) return;
  const i64 table_row = rope_row_of_query(a, token);
#pragma unroll 1
  for (i64 head = first_head; head < smaller(first_head + a.heads_together, a.hq); ++head) {
    const Row row{
        static_cast<const u8*>(a.added.q.data) +
            element_of(a.added.q, token.batch, head, token.row) * bytes_of<config::dtype>,
        static_cast<u8*>(a.q.data) + element_of(a.q, token.batch, head, token.row) * bytes_of<config::dtype>,
        Columns{0, a.d, 1}, a.d, table_row};
    if constexpr (bytes_of<config::dtype> > 1)
      convert_row<config::dtype>(a, row, static_cast<i32>(a.lanes_of_row), 1);
  }
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
  const u32 added = static_cast<u32>(count_of_new_tokens(a)), row_groups = added * 2 * parts_of_token;
  const u32 blocks_of_added = (row_groups + rows_of_block - 1) / rows_of_block;
  u32 group = block_index() * rows_of_block + thread() / lanes_of_row;
  if (block_index() < blocks_of_added) {
    const u32 part = group % parts_of_token, of_token = group / parts_of_token;
    write_token(a, of_token / 2, of_token % 2 == 1, part * together, group < row_groups);
    return;
  }
  group -= blocks_of_added * rows_of_block;
  const u32 parts_of_query = (static_cast<u32>(a.hq) + together - 1) / together;
  const u32 query = group / parts_of_query;
  if (query < static_cast<u32>(a.tq)) rotate_query(a, query, group % parts_of_query * together);
}
