#include "refusals.h"

#include <string>

#include "status.h"
#include "values.h"

namespace regard::python {
namespace {

std::string shape_of(const ArrayView& view) {
  std::string text;
  for (int axis = 0; axis < view.rank; ++axis)
    text += (axis != 0 ? ", " : "") + std::to_string(view.shape[static_cast<std::size_t>(axis)]);
  return "[" + text + "]";
}

}  // namespace

void check_readable(nb::handle value, const char* name) {
  if (is_torch_proxy(value)) refuse_traced(name);
  if (is_torch(value) && !has_memory_torch(value))
    raise(REGARD_INVALID, std::string(name) +
                              " is a tensor whose memory does not cover all of it: its storage was freed or "
                              "cut; pass one that holds its elements");
}

void refuse_flaw(const ArrayView& view, const char* name) {
  const auto refuse = [name](const std::string& why) { raise(REGARD_INVALID, name + why); };
  if (view.flaw == Flaw::requires_gradient)
    refuse(" requires a gradient, which this call would not record: use regard.torch.attention, or pass " +
           std::string(name) + ".detach() and call regard.attention_backward");
  if (view.flaw == Flaw::tangent)
    refuse(
        " has a tangent of forward-mode differentiation, which this call would lose: pass "
        "torch.autograd.forward_ad.unpack_dual(" +
        std::string(name) + ").primal");
  if (view.flaw == Flaw::no_memory || (is_nowhere(view.data) && !is_empty(view)))
    refuse(
        " has shape " + shape_of(view) +
        " and its memory does not cover all of it: its storage was freed or cut, or it is an array without "
        "data, such as a fake or meta one; pass one that holds its elements");
}

void refuse_traced(std::initializer_list<nb::handle> dicts) {
  const bool tracing = torch_is_tracing();
  for (const nb::handle named : dicts)
    for (auto [name, value] : nb::borrow<nb::dict>(named))
      if ((tracing && is_torch(value)) || is_torch_proxy(value))
        refuse_traced(text_of(name, "a tensor's name").c_str());
}

void refuse_traced(const char* name) {
  raise(REGARD_INVALID,
        std::string(name) +
            " is given while PyTorch traces (by torch.jit.trace, torch.export, make_fx or "
            "symbolic_trace), and its graph would lose this call: use "
            "regard.torch.attention, which graphs hold, or make the call outside of what is traced");
}

}  // namespace regard::python
