// What each kernel's code depends on. Fewer distinct signatures mean fewer kernels to build, cache and load.
// Everything that a kernel reads at run time is reset to its default here; tests/plan/kernel_key_test.cpp
// checks it.

#include "kernels/portable/forward_layout.h"
#include "plan/kernel.h"
#include "problem/fields.h"

namespace regard {
namespace {

/// One loop over a range of keys serves every positional mask and the ranges.
Mask kind_of(const Signature& s) {
  return s.mask != Mask::none || s.ranges ? Mask::window : Mask::none;
}

/// Broadcast dimensions are strides of 0.
Bias kind_of(Bias bias) {
  if (has_elementwise_bias(bias)) return Bias::batch_head;
  return has_alibi(bias) ? Bias::alibi : Bias::none;
}

/// For tensors of these types, and the usual type of a bias with them.
Signature of_types(Pass pass, DType dtype, DType out) {
  Signature c;
  c.pass = pass;
  c.dtype = dtype;
  c.out = out;
  for_each_following_type(c, [&](Field field, DType& type) {
    if (field != Field::out) type = default_type(field, dtype);
  });
  return c;
}

/// In kernels that read a cache each key has its factors, however many keys share them. Other factors are
/// those of a whole head: int8 always has some.
Descale kind_of_factors(const Signature& s) {
  if (s.descale == Descale::columns) return Descale::columns;
  if (s.descale == Descale::token || s.descale == Descale::page) return Descale::token;
  return s.kv == DType::int8 ? Descale::tensor : Descale::none;
}

}  // namespace

Signature inner_loop_on_cpu(const Signature& s) {
  Signature c = of_types(s.pass, s.dtype, s.out);
  c.d = s.d;
  c.dv = s.dv;
  c.mask = kind_of(s);
  c.bits = s.bits;
  c.bias = kind_of(s.bias);
  c.dbias = s.dbias;
  c.softcap = s.softcap;
  c.dropout = s.dropout;
  return c;
}

Signature forward_on_cpu(const Signature& s) {
  Signature c = inner_loop_on_cpu(s);
  c.kv = s.kv;
  c.paged = s.paged;
  if (s.paged) c.kv_layout = s.kv_layout;
  c.latent = s.latent;
  c.k_rope = s.k_rope;
  c.descale = kind_of_factors(s);
  return c;
}

Signature inner_loop_on_gpu(const Signature& s) {
  Signature c = inner_loop_on_cpu(s);
  if (has_elementwise_bias(s.bias)) c.bias_type = s.bias_type;
  c.paged = s.paged;
  return c;
}

Signature backward_on_hopper(const Signature& s) {
  Signature c = inner_loop_on_gpu(s);
  if (s.ranges) c.bits = true;
  if (c.bits) c.mask = Mask::window;
  return c;
}

Signature inner_loop_on_hopper(const Signature& s) {
  Signature c = inner_loop_on_gpu(s);
  c.batch_invariant = s.batch_invariant;
  c.ranges = s.ranges;
  c.row_max = s.row_max;
  return c;
}

Signature inner_loop_on_cache(const Signature& s) {
  Signature c = inner_loop_on_gpu(s);
  c.kv = s.kv;
  if (s.paged) c.kv_layout = s.kv_layout;
  c.descale = kind_of_factors(s);
  c.k_rope = s.k_rope;
  c.latent = s.k_rope || portable::shares_tile(s.latent, s.d);
  c.paged = s.paged || s.kv != s.dtype || c.descale != Descale::none || c.latent;
  c.row_max = s.row_max;
  return c;
}

Signature decode_on_gpu(const Signature& s) {
  Signature c = inner_loop_on_cache(s);
  c.paged = true;
  return c;
}

Signature of_plans(const Signature& s) {
  Signature c = inner_loop_on_gpu(s);
  c.mask = s.mask;  // shapes for which it hides nothing
  c.ranges = s.ranges;
  c.varlen = s.varlen;
  c.lengths = s.lengths;
  c.batch_invariant = s.batch_invariant;
  c.kv = s.kv;
  c.paged = s.paged;
  c.left_padding = s.left_padding;
  c.kv_layout = s.kv_layout;
  c.latent = s.latent;
  c.k_rope = s.k_rope;
  c.descale = s.descale;
  if (s.rope != Rope::none) c.rope = Rope::half;  // whether new tokens are written
  c.row_max = s.row_max;
  c.score = s.score;
  c.keep = s.keep;
  c.tensors = s.tensors;
  c.grads = s.grads;
  return c;
}

Signature output_type(const Signature& s) {
  if (s.pass == Pass::merge) return of_types(s.pass, s.dtype, s.out);
  return of_types(Pass::fwd, s.out, s.out);
}

Signature output_and_parts(const Signature& s) {
  Signature c = output_type(s);
  c.batch_invariant = s.batch_invariant;
  c.row_max = s.row_max;
  return c;
}

Signature types_only(const Signature& s) {
  return of_types(s.pass, s.dtype, s.out);
}

Signature cache_types(const Signature& s) {
  Signature c = of_types(Pass::append, s.dtype, default_out(s.dtype));
  c.kv = s.kv;
  return c;
}

Signature append_alone(const Signature&) {
  Signature c;
  c.pass = Pass::append;
  return c;
}

Signature pass_only(const Signature& s) {
  Signature c;
  c.pass = s.pass;
  c.mask = Mask::window;  // every mask is compiled in
  return c;
}

}  // namespace regard
