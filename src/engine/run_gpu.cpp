#include "engine/run_gpu.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "engine/bind.h"
#include "engine/tensor_maps.h"
#include "plan/stage.h"
#include "problem/tensors.h"

namespace regard {
namespace {

/// Every tensor of a call lies on the device of Q; one without elements, anywhere.
Result<const gpu::Device*> device_of(const gpu::Backend& backend, const regard_arguments& given,
                                     const TensorSpecs& specs, const void* workspace) {
  Result<const gpu::Device*> device = gpu::device_of(backend, given.tensor[REGARD_Q].data, "q");
  if (!device) return device;
  const auto same = [&](const void* memory, const char* name) -> Status {
    if (gpu::seen_on(**device, memory)) return {};
    const Result<const gpu::Device*> other = gpu::device_of(backend, memory, name);
    if (!other) return tl::unexpected(other.error());
    if (*other == *device) return {};
    return invalid(fmt::format("{} is on CUDA device {} and q on device {}; all tensors of a call lie on one",
                               name, (*other)->ordinal, (*device)->ordinal));
  };
  Status status = for_each(specs.used & ~(Roles{1} << REGARD_Q), [&](regard_role role) -> Status {
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
Status start_count(const gpu::Device& device, gpu::Stream stream, Arguments& arguments) {
  if (arguments.counter == nullptr) return {};
  if (u32* const own = gpu::counter_at_zero(device, stream)) {
    arguments.counter = own;
    return {};
  }
  return gpu::clear(device, arguments.counter, stream);
}

Status run_stage(const Plan& plan, const Stage& stage, const gpu::Device& device, gpu::Function function,
                 Arguments& arguments, gpu::Stream stream) {
  const Algorithm& algorithm = stage.kernel.algorithm;
  const gpu::Launch wanted{stage.grid, static_cast<int>(algorithm.warps * plan.target->wave),
                           stage.shared_bytes, static_cast<int>(std::max<std::int64_t>(algorithm.cluster, 1)),
                           overlaps_the_stage_before(stage, *plan.target)};
  if (!takes_tensor_maps(stage)) {
    void* const parameters[] = {&arguments};
    return gpu::launch(device, function, wanted, stream, parameters);
  }
  if (stage.grid == 0) return {};
  TensorMaps maps;
  if (Status status = tensor_maps(plan, stage, arguments, maps); !status) return status;
  if (Status status = start_count(device, stream, arguments); !status) return status;
  const auto read_only = [](const gpu::TensorMap* map) { return const_cast<gpu::TensorMap*>(map); };
  void* const parameters[] = {read_only(maps.q), read_only(maps.k), read_only(maps.v), read_only(maps.o),
                              &arguments};
  return gpu::launch(device, function, wanted, stream, parameters);
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
  if (is_empty(prepared.specs().of[REGARD_Q])) return {};  // nothing to write, and perhaps no memory
  Result<const PreparedPlan::Ready*> ready = prepared.ready();
  if (!ready) return tl::unexpected(ready.error());
  Arguments arguments = bind(*(*ready)->plan, (*ready)->constants, given, workspace);
  if (const Status reached = hopper_takes(*(*ready)->plan, arguments); !reached) {
    if (!prepared.has_fallback()) return reached;
    ready = prepared.fallback_ready(reached.error().message);
    if (!ready) return tl::unexpected(ready.error());
    arguments = bind(*(*ready)->plan, (*ready)->constants, given, workspace);
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
    if (Status status = run_stage(plan, plan.stages[i], **device, *function, arguments, stream); !status)
      return status;
  }
  return {};
}

}  // namespace regard
