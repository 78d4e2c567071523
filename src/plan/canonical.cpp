// What each kernel's code depends on. Fewer distinct signatures mean fewer kernels to build, cache and load.

#include "plan/kernel_key.h"

namespace regard {
namespace {

bool positional_or_ranges(const Signature& s) {
  return s.mask != Mask::none || s.ranges;
}

Bias kind_of(Bias bias) {
  if (has_elementwise_bias(bias)) return Bias::batch_head;
  return has_alibi(bias) ? Bias::alibi : Bias::none;
}

/// The blocked CPU kernels: element types, head dimensions and the features that add code to the inner loop.
/// Lengths, offsets, diagonals, LSE, learned sinks and broadcast strides are read at run time.
Signature blocked(const Signature& s) {
  Signature c;
  c.pass = s.pass;
  c.dtype = s.dtype;
  c.out = s.out;
  c.d = s.d;
  c.dv = s.dv;
  c.mask = positional_or_ranges(s) ? Mask::window : Mask::none;
  c.bits = s.bits;
  c.bias = kind_of(s.bias);
  c.dbias = s.dbias;
  c.softcap = s.softcap;
  c.dropout = s.dropout;
  return c;
}

/// The helpers around a main kernel read everything but the element types at run time.
Signature types_only(const Signature& s) {
  Signature c;
  c.pass = s.pass;
  c.dtype = s.dtype;
  c.out = s.out;
  return c;
}

}  // namespace

Signature canonical(const Signature& signature, std::string_view kernel, std::string_view) {
  if (kernel.starts_with("generic_")) {
    Signature c;
    c.pass = signature.pass;
    c.mask = Mask::window;  // every mask is compiled in
    return c;
  }
  if (kernel == "combine" || kernel == "backward_delta" || kernel == "backward_convert")
    return types_only(signature);
  return blocked(signature);
}

}  // namespace regard
