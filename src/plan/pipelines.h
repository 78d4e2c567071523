// Pipelines: the ways in which a GPU kernel moves tiles and feeds the matrix units.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace regard {

struct Pipeline {
  std::string_view name;
  std::vector<std::string_view> features;  ///< what the target must have
  std::string_view doc;
  bool async = false;  ///< loads into shared memory run beside the products, so tiles are held several times
};

std::span<const Pipeline> pipelines();
/// nullptr for an unknown name.
const Pipeline* find_pipeline(std::string_view name);

/// Folder of the sources below kernels/; of the CPU's where there is no pipeline.
std::string_view source_folder(std::string_view pipeline);

}  // namespace regard
