// REGARD_SAVE_CALLS: calls written to folders, for `regard rerun` (docs/saved-calls.md).
#pragma once

#include "base/settings.h"
#include "engine/prepared.h"
#include "regard/regard.h"

namespace regard {

/// The only cost of a call where none are saved. A setting that is not understood is the call's own error.
inline bool saves_calls() {
  const Result<Settings>& current = settings();
  return current && !current->save_calls.empty();
}

/// Does what `run` does, and saves the call where the setting requests it. Its results, and its error, are
/// those of `run`: a call that cannot be saved gives one warning.
Status run_and_save(PreparedPlan&, const regard_arguments&, void* workspace, std::int64_t workspace_bytes,
                    void* stream = nullptr);

}  // namespace regard
