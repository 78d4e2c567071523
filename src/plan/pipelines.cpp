#include "plan/pipelines.h"

#include "base/forever.h"

namespace regard {

std::span<const Pipeline> pipelines() {
  return forever<[] {
    return std::vector<Pipeline>{
        {"qr", {}, "Q stays in registers"},
        {"qr_async", {}, "Q stays in registers, K and V are loaded asynchronously", true},
        {"qs", {}, "Q stays in shared memory"},
        {"qr_async_trload", {"trload"}, "qr_async with transposing loads", true},
        {"qr_async_trload_v3",
         {"trload", "v3"},
         "qr_async_trload with two groups of warps that take turns",
         true},
        {"qr_paged", {}, "Q stays in registers, K and V come through a page table"},
        {"qr_warp_shuffle", {}, "few query rows, the warps share the keys and merge by shuffles"},
        {"append", {}, "writes into the cache, with rotary embedding"},
        {"batch_prefill_gfx11", {"rdna3"}, "batch prefill on wave matrix instructions"},
        {"backward", {}, "gradients, accumulators in registers"},
        {"backward_trload", {"trload"}, "backward with transposing loads"},
        {"mma", {"mma"}, "warp matrix instructions, plain loads"},
        {"mma_async", {"mma", "cp_async"}, "warp matrix instructions, asynchronous copies", true},
        {"wgmma_tma", {"wgmma", "tma"}, "warp-group matrix instructions fed by the tensor memory unit", true},
    };
  }>();
}

const Pipeline* find_pipeline(std::string_view name) {
  for (const Pipeline& pipeline : pipelines()) {
    if (pipeline.name == name) return &pipeline;
  }
  return nullptr;
}

std::string_view source_folder(std::string_view pipeline) {
  if (pipeline.empty()) return "cpu";
  return pipeline == "wgmma_tma" ? "sm90" : "portable";
}

}  // namespace regard
