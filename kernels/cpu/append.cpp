// Writes new tokens into a KV cache: keys are rotated by rope, rows are converted to the cache's type. As the
// first stage of a forward it also rotates the queries. Each block handles one token: the new ones come
// first, then the queries.
#include "kernels/cpu/append_layout.h"
#include "kernels/cpu/generic_convert.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/quantize.h"
#include "kernels/new_token.h"

namespace regard {
namespace {

struct Scratch {
  float *row, *cos, *sin;
  u8* converted;

  Scratch(const AppendLayout& layout, void* scratch) {
    u8* const memory = static_cast<u8*>(scratch);
    row = reinterpret_cast<float*>(memory + layout.row());
    cos = reinterpret_cast<float*>(memory + layout.cos());
    sin = reinterpret_cast<float*>(memory + layout.sin());
    converted = memory + layout.converted();
  }
};

bool rotates(const Arguments& a) {
  return static_cast<Rope>(a.added.rope) != Rope::none;
}

void load_tables(const Arguments& a, const Scratch& scratch, i64 table_row) {
  const NewTokens& added = a.added;
  generic::load_row(scratch.cos, generic::address(added.cos, added.rope_type, 0, 0, table_row),
                    added.rope_type, added.rotary / 2);
  generic::load_row(scratch.sin, generic::address(added.sin, added.rope_type, 0, 0, table_row),
                    added.rope_type, added.rotary / 2);
}

/// The two numbers of each pair are `apart` columns apart, and a pair `step` from the one before it.
REGARD_OPTIMIZE void rotate_pairs(float* row, const Scratch& scratch, i64 pairs, i64 step, i64 apart) {
  for (i64 i = 0; i < pairs; ++i) {
    float& first = row[i * step];
    float& second = row[i * step + apart];
    const float x = first, y = second;
    first = x * scratch.cos[i] - y * scratch.sin[i];
    second = x * scratch.sin[i] + y * scratch.cos[i];
  }
}

void rotate(const Arguments& a, const Scratch& scratch, i64 first) {
  const i64 pairs = a.added.rotary / 2;
  if (static_cast<Rope>(a.added.rope) == Rope::interleaved)
    rotate_pairs(scratch.row + first, scratch, pairs, 2, 1);
  else
    rotate_pairs(scratch.row + first, scratch, pairs, 1, pairs);
}

/// to[0, n) = row[0, n) * factor. Whole vectors are written, past n as well.
template <DType dtype>
REGARD_OPTIMIZE void convert_row(u8* to, const float* row, float factor, i64 n) {
  for (i64 i = 0; i < n; i += lanes) {
    const Floats x = load<Floats>(row + i);
    if constexpr (bytes_of<dtype> == 1)
      store(to + i, eight_bits_of_floats<dtype>(x * factor));
    else
      store_floats<dtype>(to + i * bytes_of<dtype>, x);
  }
}

/// function<dtype>()
template <class Function>
void with_type(i32 dtype, const Function& function) {
  switch (static_cast<DType>(dtype)) {
    case DType::fp32:
      return function.template operator()<DType::fp32>();
    case DType::bf16:
      return function.template operator()<DType::bf16>();
    case DType::fp16:
      return function.template operator()<DType::fp16>();
    case DType::fp8:
      return function.template operator()<DType::fp8>();
    case DType::fp8_e5m2:
      return function.template operator()<DType::fp8_e5m2>();
    case DType::fp8_fnuz:
      return function.template operator()<DType::fp8_fnuz>();
    case DType::fp8_e5m2_fnuz:
      return function.template operator()<DType::fp8_e5m2_fnuz>();
    case DType::int8:
      return function.template operator()<DType::int8>();
  }
}

void convert(u8* to, const float* row, float factor, i32 dtype, i64 n) {
  with_type(dtype, [&]<DType type>() { convert_row<type>(to, row, factor, n); });
}

/// The factor with which the largest number of a row becomes the largest of the cache's type; 1 for zeros,
/// and where the factor would be subnormal.
REGARD_OPTIMIZE float factor_of_row(const float* row, i32 dtype, i64 n) {
  float most = 0;
  for (i64 i = 0; i < n; ++i) most = larger(most, __builtin_fabsf(row[i]));
  float largest = 1;
  with_type(dtype, [&]<DType type>() { largest = largest_number<type>; });
  constexpr float smallest_normal = 0x1p-126f;
  return most / largest < smallest_normal ? 1 : most / largest;
}

/// A tensor of the cache, or some of its columns, with the new tokens for it.
struct Side {
  Rows added, cache, factors;
  Columns columns;
  i64 first, n;  // elements before the first column of the row; columns
  bool rotates;
  i32 type;  // of the cache
};

void write_row(const Arguments& a, const Scratch& scratch, const Token& token, const CacheRow& to, i64 head,
               const Side& side) {
  const u8* from = generic::address(side.added, a.dtype, token.batch, head, token.row);
  const auto kind = static_cast<Descale>(a.descale);
  const i64 element = bytes_of_dtype(side.type);
  float factor = 1;
  if (side.rotates || a.dtype != side.type) {
    generic::load_row(scratch.row, from, a.dtype, side.n);
    if (side.rotates) rotate(a, scratch, 0);
    if (has_factors_of_tokens(a))
      factor = factor_of_row(scratch.row, side.type, side.n);
    else if (kind != Descale::none)
      factor = factor_of(side.factors, batch_of_factor(a, token, to), head);
    convert(scratch.converted, scratch.row, 1 / factor, side.type, side.n);
    from = scratch.converted;
  }  // else the bytes stay as they are: 8-bit tokens have the factors of the cache
  if (has_factors_of_tokens(a) && a.dtype != side.type)
    *row_of<float>(side.factors, to.batch, head, to.row) = factor;
  u8* const row = static_cast<u8*>(side.cache.data) +
                  (to.batch * side.cache.batch + head * side.cache.head + side.first) * element;
  const Columns& columns = side.columns;
  const i64 together = columns.step == 1 ? columns.run : 1;
  for (i64 column = 0; column < side.n; column += together)
    __builtin_memcpy(row + columns.element(static_cast<i32>(column)) * element, from + column * element,
                     static_cast<u64>(together * element));
}

void write_token(const Arguments& a, const Scratch& scratch, i64 number) {
  const Token token = new_token(a, number);
  const CacheRow to = row_of_new_token(a, token);
  if (to.batch < 0) return;
  if (rotates(a)) load_tables(a, scratch, rope_row_of_new_token(a, token));
  const auto write = [&](const Side& side) {
    for (i64 head = 0; head < a.hk; ++head) write_row(a, scratch, token, to, head, side);
  };
  if (has_latent_tokens(a)) {
    const i32 together = has_column_factors(a) ? factor_columns : a.dv;
    for (i32 first = 0; first < a.dv; first += together)
      write({rows_from_column(a.added.k, first, a.dtype),
             a.k,
             factors_from_column(a.descale_k, first),
             {0, together, 1},
             to.row * a.k.row + first,
             together,
             false,
             a.kv});
    const Rows rest = columns_after_v(a);
    const i32 n = a.d - a.dv;
    return write({rows_from_column(a.added.k, a.dv, a.dtype),
                  rest,
                  a.descale_k,
                  {0, n, 1},
                  to.row * rest.row,
                  n,
                  rotates(a),
                  type_after_v(a)});
  }
  write({a.added.k, a.k, a.descale_k, columns_of_k(a), first_of_k(a, to.row), a.d, rotates(a), a.kv});
  write({a.added.v, a.v, a.descale_v, columns_of_v(a), first_of_v(a, to.row), a.dv, false, a.kv});
}

void rotate_query(const Arguments& a, const Scratch& scratch, i64 number) {
  const Token token = query_token(a, number);
  if (token.sequence >= a.b) return;
  load_tables(a, scratch, rope_row_of_query(a, token));
  for (i64 head = 0; head < a.hq; ++head) {
    generic::load_row(scratch.row, generic::address(a.added.q, a.dtype, token.batch, head, token.row),
                      a.dtype, a.d);
    rotate(a, scratch, a.added.first_rotated);
    generic::store_row(generic::address(a.q, a.dtype, token.batch, head, token.row), scratch.row, 1, a.dtype,
                       a.d);
  }
}

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  const Arguments& a = *arguments;
  const Scratch memory(AppendLayout(a.d, a.dv, a.added.rotary), scratch);
  const i64 added = count_of_new_tokens(a);
  if (block < added)
    write_token(a, memory, block);
  else
    rotate_query(a, memory, block - added);
}
