#include "engine/run_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/log.h"
#include "engine/bind.h"
#include "engine/tensor_maps.h"
#include "plan/kernel.h"
#include "problem/tensors.h"

namespace regard {
namespace {

/// Every tensor of a call lies on the device of Q; one without elements, anywhere.
Result<const gpu::Device*> device_of(const gpu::Backend& backend, const regard_arguments& given,
                                     const TensorSpecs& specs, const void* workspace) {
  // Where there are no queries, K says.
  const regard_role first = is_empty(specs.of[REGARD_Q]) ? REGARD_K : REGARD_Q;
  const char* const first_name = regard_role_name(first);
  Result<const gpu::Device*> device = gpu::device_of(backend, given.tensor[first].data, first_name);
  if (!device) return device;
  const auto same = [&](const void* memory, const char* name) -> Status {
    if (gpu::seen_on(**device, memory)) return {};
    const Result<const gpu::Device*> other = gpu::device_of(backend, memory, name);
    if (!other) return tl::unexpected(other.error());
    if (*other == *device) return {};
    return invalid(fmt::format("{} is on GPU {} and {} on GPU {}; all tensors of a call lie on one", name,
                               (*other)->ordinal, first_name, (*device)->ordinal));
  };
  Status status = for_each(specs.used & ~(Roles{1} << first), [&](regard_role role) -> Status {
    const void* memory = given.tensor[role].data;
    if (memory == nullptr || is_empty(specs.of[role])) return {};
    return same(memory, regard_role_name(role));
  });
  if (status && workspace != nullptr) status = same(workspace, "the workspace");
  if (!status) return tl::unexpected(status.error());
  return device;
}

/// The kernel counts from 0 in a counter of the stream's own; where there is none, in the workspace, which
/// may hold anything.
Status start_count(const gpu::Device& device, gpu::Stream stream, void* in_workspace, u32*& counter) {
  counter = gpu::counter_at_zero(device, stream);
  if (counter != nullptr) return {};
  counter = static_cast<u32*>(in_workspace);
  return gpu::clear(device, counter, stream);
}

constexpr std::size_t most_stages = 3;
/// Of each stage that loads and stores by tensor maps.
using BoxesOfStages = std::array<std::optional<TensorBoxes>, most_stages>;

/// Or why the plan's kernels cannot read or write these tensors.
Status boxes_of(const Plan& plan, const Arguments& arguments, BoxesOfStages& boxes) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    if (stage.kernel->boxes == nullptr) continue;
    Result<TensorBoxes> of_stage = stage.kernel->boxes(plan, stage, arguments);
    if (!of_stage) return tl::unexpected(of_stage.error());
    boxes[i] = *of_stage;
  }
  return {};
}

Status run_stage(const Plan& plan, const Stage& stage, const TensorBoxes* boxes, const gpu::Device& device,
                 gpu::Function function, BoundArguments& bound, void* workspace, gpu::Stream stream) {
  if (stage.grid == 0) return {};
  const Algorithm& algorithm = stage.key.algorithm;
  const gpu::Launch wanted{stage.grid, static_cast<int>(algorithm.warps * plan.target->wave),
                           stage.shared_bytes, static_cast<int>(std::max<std::int64_t>(algorithm.cluster, 1)),
                           stage.overlaps};
  std::array<void*, std::tuple_size_v<TensorMaps> + 1> parameters{};
  std::size_t count = 0;
  if (boxes != nullptr) {
    TensorMaps maps;
    if (Status status = tensor_maps(device, *boxes, maps); !status) return status;
    for (; count < boxes->count; ++count) parameters[count] = const_cast<gpu::TensorMap*>(maps[count]);
  }
  bound.shared.counter = nullptr;
  if (stage.counter != WorkspaceLayout::none) {
    void* const in_workspace = plan.workspace.at(stage.counter, workspace);
    if (Status status = start_count(device, stream, in_workspace, bound.shared.counter); !status)
      return status;
  }
  stage.schedule.write(bound.schedule, plan.workspace, workspace);
  parameters[count++] = &bound;
  return gpu::launch(device, function, wanted, stream, {parameters.data(), count});
}

}  // namespace

Status load_on_gpu(const PreparedPlan::Ready& ready, const gpu::Device& device) {
  const gpu::Use use(device);
  if (!use.status()) return use.status();
  for (const auto& kernel : ready.kernels) {
    if (const Result<gpu::Function> loaded = kernel->code.gpu->load(device); !loaded)
      return tl::unexpected(loaded.error());
  }
  return {};
}

Status run_on_gpu(PreparedPlan& prepared, const regard_arguments& given, void* workspace,
                  gpu::Stream stream) {
  // Nothing to write, and perhaps no memory. Without queries there are still gradients of keys.
  const auto& specs = prepared.specs().of;
  if (is_empty(specs[REGARD_Q]) && (prepared.best().problem.pass == Pass::fwd || is_empty(specs[REGARD_K])))
    return {};
  Result<const PreparedPlan::Ready*> ready = prepared.ready();
  if (!ready) return tl::unexpected(ready.error());
  BoundArguments bound{bind(*(*ready)->plan, (*ready)->constants, given), {}};
  BoxesOfStages boxes;
  if (const Status reached = boxes_of(*(*ready)->plan, bound.shared, boxes); !reached) {
    if (!prepared.has_fallback()) return reached;
    ready = prepared.fallback_ready(reached.error().message);
    if (!ready) return tl::unexpected(ready.error());
    bound.shared = bind(*(*ready)->plan, (*ready)->constants, given);
    boxes = {};
    if (Status status = boxes_of(*(*ready)->plan, bound.shared, boxes); !status) return status;
  }
  const Plan& plan = *(*ready)->plan;
  const gpu::Backend& backend = (*ready)->kernels.front()->code.gpu->backend();
  const Result<const gpu::Device*> device = device_of(backend, given, prepared.specs(), workspace);
  if (!device) return tl::unexpected(device.error());
  const gpu::Use use(**device);
  if (!use.status()) return use.status();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const LoadedKernel& kernel = *(*ready)->kernels[i];
    const Result<gpu::Function> function = kernel.code.gpu->function(**device, stream);
    if (!function) return tl::unexpected(function.error());
    log_line("launch", kernel.key);
    const TensorBoxes* of_stage = boxes[i] ? &*boxes[i] : nullptr;
    if (Status status =
            run_stage(plan, plan.stages[i], of_stage, **device, *function, bound, workspace, stream);
        !status)
      return status;
  }
  return {};
}

}  // namespace regard
