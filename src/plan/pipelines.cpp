#include "plan/pipelines.h"

#include "base/forever.h"

namespace regard {

std::span<const Pipeline> pipelines() {
  return forever<[] {
    return std::vector<Pipeline>{
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
