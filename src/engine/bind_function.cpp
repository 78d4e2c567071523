#include "engine/bind_function.h"

#include <algorithm>
#include <cstring>

#include "kernels/portable/bits_schedule.h"
#include "kernels/portable/ranges_schedule.h"
#include "plan/function_steps.h"
#include "problem/tensors.h"

namespace regard {
namespace {

// Kernels read the numbers of dtypes (kernels/function/scalar.h).
static_assert(REGARD_UINT8 == 18 && REGARD_INT64 == 20);

CapturedTensor tensor_of(const regard_tensor& tensor, const regard_tensor& gradient) {
  CapturedTensor bound{};
  bound.data = tensor.data;
  bound.gradient = static_cast<float*>(gradient.data);
  bound.dtype = static_cast<i32>(tensor.dtype);
  bound.dimensions = tensor.rank;
  std::fill_n(bound.sizes, 4, 1);
  std::copy_n(tensor.shape, tensor.rank, bound.sizes);
  std::copy_n(tensor.strides, tensor.rank, bound.strides);
  if (gradient.data != nullptr) std::copy_n(gradient.strides, gradient.rank, bound.gradient_strides);
  return bound;
}

MaskTensor mask_tensor_of(const regard_tensor& tensor) {
  const CapturedTensor captured = tensor_of(tensor, {});
  MaskTensor bound{captured.data, captured.dtype, {}, {}};
  std::copy_n(captured.sizes, 4, bound.sizes);
  std::copy_n(captured.strides, 4, bound.strides);
  return bound;
}

template <class Numbers>
void add_tensors(const regard_arguments& given, std::byte* schedule) {
  Numbers own;
  std::memcpy(&own, schedule, sizeof own);
  for (std::size_t i = 0; i < function::most_tensors && own.captured[i] < function::most_tensors; ++i)
    own.call.tensors[i] = mask_tensor_of(given.tensor[captured(own.captured[i])]);
  std::memcpy(schedule, &own, sizeof own);
}

}  // namespace

void bind_mask(const Plan& plan, const Stage& stage, const regard_arguments& given, std::byte* schedule) {
  if (&stage != &plan.stages.front()) return;
  if (plan.bits != WorkspaceLayout::none) add_tensors<PortableBitsSchedule>(given, schedule);
  if (plan.ranges != WorkspaceLayout::none) add_tensors<PortableRangesSchedule>(given, schedule);
}

void bind_function(const Plan& plan, const regard_arguments& given, void* workspace) {
  if (plan.function == WorkspaceLayout::none) return;
  const FunctionSteps& steps = *plan.steps;
  FunctionCall call = steps.call;
  for (int i = 0; i < static_cast<int>(function::most_tensors); ++i)
    if (const regard_tensor& tensor = given.tensor[captured(i)]; tensor.data != nullptr)
      call.tensors[i] = tensor_of(tensor, given.tensor[grad_captured(i)]);

  auto* const to = static_cast<std::byte*>(plan.workspace.at(plan.function, workspace));
  auto* const list = to + sizeof call;
  auto* const derivatives = list + steps.steps.size() * sizeof(FunctionStep);
  call.steps = reinterpret_cast<const FunctionStep*>(list);
  call.derivatives = reinterpret_cast<const FunctionDerivative*>(derivatives);
  std::memcpy(to, &call, sizeof call);
  std::memcpy(list, steps.steps.data(), steps.steps.size() * sizeof(FunctionStep));
  if (!steps.derivatives.empty())
    std::memcpy(derivatives, steps.derivatives.data(), steps.derivatives.size() * sizeof(FunctionDerivative));
}

}  // namespace regard
