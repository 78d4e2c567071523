// Launching a plan's stages.
#pragma once

#include "engine/prepared.h"
#include "regard/regard.h"

namespace regard {

/// Checks the tensors, binds them and runs every stage, on a GPU in `stream` (which can be CUDA's null
/// stream). `workspace` is 64-byte aligned and large enough.
Status run(PreparedPlan&, const regard_arguments&, void* workspace, std::int64_t workspace_bytes,
           void* stream = nullptr);

}  // namespace regard
