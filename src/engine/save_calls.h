// REGARD_SAVE_CALLS: calls written to folders, for `regard rerun` (docs/saved-calls.md).
#pragma once

#include "base/settings.h"
#include "engine/prepared.h"
#include "regard/regard.h"

namespace regard {

/// All that a call costs where none are saved. A setting that is not understood is the call's own error.
inline bool saves_calls() {
  const Result<Settings>& current = settings();
  return current && !current->save_calls.empty();
}

/// `run`, and saves the call where the setting asks for it. Its results, and its error, are those of `run`: a
/// call that cannot be saved is one warning.
Status run_and_save(PreparedPlan&, const regard_arguments&, void* workspace, std::int64_t workspace_bytes,
                    void* stream = nullptr);

}  // namespace regard
