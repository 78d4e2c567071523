// What each kernel's code depends on. Fewer distinct signatures mean fewer kernels to build, cache and load.
// Everything that a kernel reads at run time goes back to its default here; kernel_key_test.cpp pins it.

#include "plan/kernel_key.h"

namespace regard {
namespace {

/// One loop over [lo, hi) serves every positional mask and the ranges.
Mask kind_of(const Signature& s) {
  return s.mask != Mask::none || s.ranges ? Mask::window : Mask::none;
}

/// Broadcast dimensions are strides of 0.
Bias kind_of(Bias bias) {
  if (has_elementwise_bias(bias)) return Bias::batch_head;
  return has_alibi(bias) ? Bias::alibi : Bias::none;
}

/// forward, decode, backward and their GPU relatives: element types, head dimensions and the features that
/// add code to the inner loop. Lengths, offsets, diagonals, LSE, sinks and strides are read at run time.
Signature blocked(const Signature& s) {
  Signature c;
  c.pass = s.pass;
  c.dtype = s.dtype;
  c.out = s.out;
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

/// Merges fp32 parts: only what it writes.
Signature combine(const Signature& s) {
  Signature c;
  c.dtype = c.out = s.out;
  return c;
}

/// backward_delta and backward_convert: element types; the rest is read at run time.
Signature types_only(const Signature& s) {
  Signature c;
  c.pass = s.pass;
  c.dtype = s.dtype;
  c.out = s.out;
  return c;
}

/// Flags are read at run time, element types too.
Signature generic(const Signature& s) {
  Signature c;
  c.pass = s.pass;
  c.mask = Mask::window;  // every mask is compiled in
  return c;
}

}  // namespace

Signature canonical(const Signature& signature, std::string_view kernel, std::string_view) {
  if (kernel.starts_with("generic_")) return generic(signature);
  if (kernel == "combine") return combine(signature);
  if (kernel == "backward_delta" || kernel == "backward_convert") return types_only(signature);
  return blocked(signature);
}

}  // namespace regard
