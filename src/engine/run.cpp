#include "engine/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "engine/bind.h"
#include "engine/bind_function.h"
#include "engine/counters.h"
#include "engine/run_gpu.h"
#include "engine/workspace_use.h"
#include "problem/tensors.h"

namespace regard {
namespace {

void run_on_cpu(const PreparedPlan::Ready& ready, const regard_arguments& given, void* workspace) {
  const Plan& plan = *ready.plan;
  BoundArguments bound{bind(plan, ready.constants, given, workspace), {}};
  bind_function(plan, given, workspace);
  void* const scratch = plan.workspace.at(plan.scratch, workspace);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    log_line("launch", ready.kernels[i]->key);
    stage.schedule.write(bound.schedule, plan.workspace, workspace);
    cpu::run_grid(ready.kernels[i]->code.function, bound.shared, stage.grid, plan.workers, scratch,
                  stage.scratch_bytes);
  }
}

/// Sets all elements to zero, by clear(memory, bytes) on contiguous parts; the last dimension is contiguous.
template <class Clear>
Status clear_tensor(const regard_tensor& tensor, Clear clear) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(tensor.dtype));
  int axes = std::clamp(tensor.rank, 1, 4) - 1;
  std::int64_t in_a_row = tensor.shape[axes];
  for (; axes > 0 && (tensor.strides[axes - 1] == in_a_row || tensor.shape[axes - 1] == 1); --axes)
    in_a_row *= tensor.shape[axes - 1];
  std::int64_t rows = 1;
  for (int axis = 0; axis < axes; ++axis) rows *= tensor.shape[axis];
  if (in_a_row == 0) return {};
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row, offset = 0;
    for (int axis = axes; axis-- > 0;) {
      offset += rest % tensor.shape[axis] * tensor.strides[axis];
      rest /= tensor.shape[axis];
    }
    if (Status status = clear(static_cast<char*>(tensor.data) + offset * bytes, in_a_row * bytes); !status)
      return status;
  }
  return {};
}

/// Without sequences no kernel has a block, and the gradients that are summed over them are zero.
Status run_without_batch(const Target& target, const regard_arguments& given, gpu::Stream stream) {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (role != REGARD_GRAD_BIAS && role != REGARD_GRAD_SINK && !is_grad_captured(role)) continue;
    const regard_tensor& tensor = given.tensor[role];
    if (tensor.data == nullptr) continue;
    const Status cleared = clear_tensor(tensor, [&](void* memory, std::int64_t bytes) -> Status {
      if (target.on_gpu()) return clear_on_gpu(target, role, memory, bytes, stream);
      std::memset(memory, 0, static_cast<std::size_t>(bytes));
      return {};
    });
    if (!cleared) return cleared;
  }
  return {};
}

}  // namespace

Status run(PreparedPlan& prepared, const regard_arguments& given, void* workspace,
           std::int64_t workspace_bytes, void* stream) {
  const Problem& problem = prepared.problem();
  const bool on_cpu = prepared.best().target->on_cpu();
  if (on_cpu && stream != nullptr) return invalid("a CPU target takes no stream; pass NULL");
  if (Status status = check_tensors(problem, prepared.specs(), given); !status) return status;
  if (on_cpu) {
    if (Status status = check_host_values(problem, given); !status) return status;
  }
  const std::int64_t needed = prepared.workspace_bytes();
  if (workspace_bytes < needed || (needed > 0 && workspace == nullptr)) {
    return invalid(
        fmt::format("the workspace has {} bytes and the plan needs {} (regard_plan_workspace_bytes)",
                    workspace == nullptr ? 0 : workspace_bytes, needed));
  }
  if (reinterpret_cast<std::uintptr_t>(workspace) % 64 != 0) {
    return invalid(fmt::format(
        "the workspace is not aligned to 64 bytes; {}",
        on_cpu ? "allocate it with aligned_alloc(64, ...)" : "pass memory as the GPU's allocator gives it"));
  }
  if (Status status = check_workspace(prepared.specs(), given, workspace, needed); !status) return status;

  if (problem.b == 0) {
    const Target& target = *prepared.best().target;
    if (Status status = run_without_batch(target, given, static_cast<gpu::Stream>(stream)); !status)
      return status;
  } else if (on_cpu) {
    regard_arguments storage;
    const regard_arguments* taken = nullptr;
    const Result<const PreparedPlan::Ready*> ready = prepared.ready_for(given, storage, taken);
    if (!ready) return tl::unexpected(ready.error());
    const WorkspaceUse use(workspace, needed);
    if (!use.status()) return use.status();
    run_on_cpu(**ready, *taken, workspace);
  } else if (Status status = run_on_gpu(prepared, given, workspace, static_cast<gpu::Stream>(stream));
             !status) {
    return status;
  }
  counters().runs.fetch_add(1, std::memory_order_relaxed);
  return {};
}

}  // namespace regard
