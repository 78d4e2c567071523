#include "engine/run_gpu.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "engine/bind.h"
#include "kernels/sm90/forward_layout.h"
#include "problem/tensors.h"

namespace regard {
namespace {

/// Every tensor of a call lies on the device of Q.
Result<const cuda::Device*> device_of(const regard_arguments& given, const void* workspace) {
  Result<const cuda::Device*> device = cuda::device_of(given.tensor[REGARD_Q].data, "q");
  if (!device) return device;
  const auto same = [&](const void* memory, const char* name) -> Status {
    const Result<const cuda::Device*> other = cuda::device_of(memory, name);
    if (!other) return tl::unexpected(other.error());
    if (*other == *device) return {};
    return invalid(fmt::format("{} is on CUDA device {} and q on device {}; all tensors of a call lie on one",
                               name, (*other)->ordinal, (*device)->ordinal));
  };
  for (int role = REGARD_Q + 1; role < REGARD_ROLE_COUNT; ++role) {
    const regard_tensor& tensor = given.tensor[role];
    if (tensor.data == nullptr) continue;
    if (Status status = same(tensor.data, regard_role_name(static_cast<regard_role>(role))); !status)
      return tl::unexpected(status.error());
  }
  if (workspace != nullptr) {
    if (Status status = same(workspace, "the workspace"); !status) return tl::unexpected(status.error());
  }
  return device;
}

cuda::TensorMapType map_type(DType dtype) {
  if (bytes_of(dtype) == 1) return cuda::map_uint8;
  return dtype == DType::fp16 ? cuda::map_fp16 : cuda::map_bf16;
}

/// One of Q, K and V as the Hopper kernels read it.
Result<cuda::TensorMap> map_of(const Problem& p, const Rows& rows, const char* name, std::int64_t columns,
                               std::int64_t count, std::int64_t heads, std::int64_t box_rows) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(p.dtype));
  const bool ragged = p.varlen || p.lengths;
  const std::int64_t batches = p.varlen ? 1 : p.b;
  if (ragged && batches > 1 && (rows.row == 0 || rows.batch % rows.row != 0)) {
    return refused(
        fmt::format("{}: with lengths its batch stride has to be a multiple of its row stride, {} is "
                    "none of {}",
                    name, rows.batch, rows.row));
  }
  const Sm90TensorMap wanted = sm90_tensor_map(rows, columns, count, heads, batches, box_rows, bytes, ragged);
  cuda::BoxedTensor tensor{rows.data, map_type(p.dtype), wanted.rank, {}, {}, {}};
  for (std::size_t i = 0; i < 5; ++i) {
    tensor.sizes[i] = std::max<std::uint64_t>(wanted.extent[i], 1);
    tensor.box[i] = wanted.box[i];
  }
  for (std::size_t i = 0; i < 4; ++i) tensor.strides[i] = wanted.stride[i];
  return cuda::tensor_map(tensor, name);
}

struct Maps {
  cuda::TensorMap q, k, v;
};

Result<Maps> maps_of(const Plan& plan, const Stage& stage, const Arguments& a) {
  const Problem& p = plan.problem;
  // Without keys there is no K to describe; nothing is read through the map then.
  const Rows k = p.sk > 0 ? a.k : Rows{a.q.data, 16, 16, 16}, v = p.sk > 0 ? a.v : k;
  const Result<cuda::TensorMap> q =
      map_of(p, a.q, "q", p.d, p.varlen ? p.tq : p.sq, p.hq, Sm90ForwardLayout::group_rows);
  if (!q) return tl::unexpected(q.error());
  const std::int64_t keys = p.varlen ? p.tk : p.sk, block_k = stage.kernel.algorithm.block_k;
  const Result<cuda::TensorMap> of_k = map_of(p, k, "k", p.d, keys, p.hk, block_k);
  if (!of_k) return tl::unexpected(of_k.error());
  const Result<cuda::TensorMap> of_v = map_of(p, v, "v", p.dv, keys, p.hk, block_k);
  if (!of_v) return tl::unexpected(of_v.error());
  return Maps{*q, *of_k, *of_v};
}

Status run_stage(const Plan& plan, const Stage& stage, cuda::Function function, Arguments& arguments,
                 cuda::Stream stream) {
  const Algorithm& algorithm = stage.kernel.algorithm;
  const cuda::Launch wanted{stage.grid, static_cast<int>(algorithm.warps * plan.target->wave),
                            stage.shared_bytes,
                            static_cast<int>(std::max<std::int64_t>(algorithm.cluster, 1))};
  if (algorithm.pipeline != "wgmma_tma") {
    void* const parameters[] = {&arguments};
    return cuda::launch(function, wanted, stream, parameters);
  }
  if (stage.grid == 0) return {};
  Result<Maps> maps = maps_of(plan, stage, arguments);
  if (!maps) return tl::unexpected(maps.error());
  void* const parameters[] = {&maps->q, &maps->k, &maps->v, &arguments};
  return cuda::launch(function, wanted, stream, parameters);
}

}  // namespace

Status load_on_gpu(const PreparedPlan::Ready& ready, const cuda::Device& device) {
  const cuda::Use use(device);
  if (!use.status()) return use.status();
  for (const auto& kernel : ready.kernels) {
    if (const Result<cuda::Function> loaded = kernel->code.gpu->load(device); !loaded)
      return tl::unexpected(loaded.error());
  }
  return {};
}

Status run_on_gpu(const PreparedPlan::Ready& ready, const regard_arguments& given, void* workspace,
                  cuda::Stream stream) {
  const Plan& plan = *ready.plan;
  const Result<const cuda::Device*> device = device_of(given, workspace);
  if (!device) return tl::unexpected(device.error());
  const cuda::Use use(**device);
  if (!use.status()) return use.status();
  Arguments arguments = bind(plan, given, workspace);
  if (arguments.counter != nullptr) {
    const auto address = reinterpret_cast<cuda::Address>(arguments.counter);
    if (Status status = cuda::check(cuda::driver()->fill_ordered(address, 0, 1, stream), "clear a counter");
        !status)
      return status;
  }
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const LoadedKernel& kernel = *ready.kernels[i];
    const Result<cuda::Function> function = kernel.code.gpu->function(**device, stream);
    if (!function) return tl::unexpected(function.error());
    log_line("launch", kernel.key);
    if (Status status = run_stage(plan, plan.stages[i], *function, arguments, stream); !status) return status;
  }
  return {};
}

}  // namespace regard
