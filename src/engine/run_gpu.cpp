#include "engine/run_gpu.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <optional>

#include "base/log.h"
#include "engine/bind.h"
#include "engine/bind_function.h"
#include "engine/machine.h"
#include "engine/tensor_maps.h"
#include "plan/kernel.h"
#include "problem/tensors.h"

namespace regard {
namespace {

bool has_memory(const TensorSpecs& specs, const regard_arguments& given, int role) {
  return given.tensor[role].data != nullptr && !is_empty(specs.of[role]);
}

/// Every tensor of a call must be on the device of the leading one; one without elements can be anywhere.
Result<const gpu::Device*> device_of(const gpu::Backend& backend, const regard_arguments& given,
                                     const TensorSpecs& specs, regard_role leading, const void* workspace) {
  const std::string its_name = label(specs.of[leading]);
  Result<const gpu::Device*> device = gpu::device_of(backend, given.tensor[leading].data, its_name.c_str());
  if (!device) return device;
  const auto same = [&](const void* memory, const auto& name_of_it) -> Status {
    if (gpu::seen_on(**device, memory)) return {};
    const std::string name = name_of_it();
    const Result<const gpu::Device*> other = gpu::device_of(backend, memory, name.c_str());
    if (!other) return tl::unexpected(other.error());
    if (*other == *device) return {};
    return invalid(fmt::format("{} is on GPU {} and {} on GPU {}; all tensors of a call lie on one", name,
                               (*other)->ordinal, its_name, (*device)->ordinal));
  };
  Status status = for_each(specs.used & ~(Roles{1} << leading), [&](regard_role role) -> Status {
    if (!has_memory(specs, given, role)) return {};
    return same(given.tensor[role].data, [&] { return label(specs.of[role]); });
  });
  if (status && workspace != nullptr) status = same(workspace, [] { return std::string("the workspace"); });
  if (!status) return tl::unexpected(status.error());
  return device;
}

/// The kernel counts from 0 in the stream's own counter or, where there is none, in the workspace, whose
/// content is undefined.
Status start_count(const gpu::Device& device, gpu::Stream stream, void* in_workspace, u32*& counter) {
  counter = gpu::counter_at_zero(device, stream);
  if (counter != nullptr) return {};
  counter = static_cast<u32*>(in_workspace);
  return gpu::clear(device, counter, sizeof *counter, stream);
}

constexpr std::size_t most_stages = 4;
/// For each stage that loads and stores by tensor maps.
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
                 gpu::Function function, const regard_arguments& given, BoundArguments& bound,
                 void* workspace, gpu::Stream stream) {
  if (stage.grid == 0) return {};
  const Algorithm& algorithm = stage.key.algorithm;
  const gpu::Launch requested{stage.grid, static_cast<int>(algorithm.warps * plan.target->wave),
                              stage.shared_bytes, static_cast<int>(algorithm.cluster_blocks()),
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
  bind_mask(plan, stage, given, bound.schedule);
  parameters[count++] = &bound;
  return gpu::launch(device, function, requested, stream, {parameters.data(), count});
}

}  // namespace

std::optional<regard_role> leading_tensor(const TensorSpecs& specs, const regard_arguments& given) {
  const auto first_of = [&](Roles roles) -> std::optional<regard_role> {
    for (; roles != 0; roles &= roles - 1) {
      const int role = std::countr_zero(roles);
      if (has_memory(specs, given, role)) return static_cast<regard_role>(role);
    }
    return {};
  };
  return first_of(specs.written) ? first_of(specs.used) : std::nullopt;  // Q is the first role
}

Status clear_on_gpu(const Target& target, regard_role role, void* memory, std::int64_t bytes,
                    gpu::Stream stream) {
  const Result<const gpu::Device*> device =
      gpu::device_of(backend_of(target), memory, regard_role_name(role));
  if (!device) return tl::unexpected(device.error());
  const gpu::Use use(**device);
  if (!use.status()) return use.status();
  return gpu::clear(**device, memory, bytes, stream);
}

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
  const std::optional<regard_role> leading = leading_tensor(prepared.specs(), given);
  if (!leading) return {};
  regard_arguments storage;
  const regard_arguments* taken = nullptr;
  Result<const PreparedPlan::Ready*> ready = prepared.ready_for(given, storage, taken);
  if (!ready) return tl::unexpected(ready.error());
  BoundArguments bound{bind(*(*ready)->plan, (*ready)->constants, *taken, workspace), {}};
  BoxesOfStages boxes;
  if (const Status reached = boxes_of(*(*ready)->plan, bound.shared, boxes); !reached) {
    if (!prepared.has_fallback()) return reached;
    ready = prepared.fallback_ready(reached.error().message);
    if (!ready) return tl::unexpected(ready.error());
    bound.shared = bind(*(*ready)->plan, (*ready)->constants, *taken, workspace);
    boxes = {};
    if (Status status = boxes_of(*(*ready)->plan, bound.shared, boxes); !status) return status;
  }
  const Plan& plan = *(*ready)->plan;
  const gpu::Backend& backend = (*ready)->kernels.front()->code.gpu->backend();
  const Result<const gpu::Device*> device = device_of(backend, given, prepared.specs(), *leading, workspace);
  if (!device) return tl::unexpected(device.error());
  const gpu::Use use(**device);
  if (!use.status()) return use.status();
  std::array<gpu::Function, most_stages> functions{};  // all of them, before the first is launched
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Result<gpu::Function> function = (*ready)->kernels[i]->code.gpu->function(**device, stream);
    if (!function) return tl::unexpected(function.error());
    functions[i] = *function;
  }
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    log_line("launch", (*ready)->kernels[i]->key);
    const TensorBoxes* of_stage = boxes[i] ? &*boxes[i] : nullptr;
    if (Status status = run_stage(plan, plan.stages[i], of_stage, **device, functions[i], *taken, bound,
                                  workspace, stream);
        !status)
      return status;
  }
  return {};
}

}  // namespace regard
