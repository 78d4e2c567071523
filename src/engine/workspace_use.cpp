#include "engine/workspace_use.h"

#include <mutex>

#include "base/process_lifetime.h"
#include "base/settings.h"

namespace regard {
namespace {

bool looks_out() {
#ifdef NDEBUG
  const Result<Settings>& current = settings();
  return current && !current->verify.empty();
#else
  return true;
#endif
}

struct Uses {
  std::mutex mutex;
  WorkspaceUse* first = nullptr;
};
ForkLocal<Uses>& uses = *new ForkLocal<Uses>;

}  // namespace

WorkspaceUse::WorkspaceUse(const void* workspace, std::int64_t bytes)
    : first_(reinterpret_cast<std::uintptr_t>(workspace)), end_(first_ + static_cast<std::uintptr_t>(bytes)) {
  if (bytes == 0 || !looks_out()) return;
  Uses& all = uses.get();
  const std::scoped_lock lock(all.mutex);
  for (const WorkspaceUse* other = all.first; other != nullptr; other = other->next_) {
    if (other->first_ >= end_ || first_ >= other->end_) continue;
    status_ = invalid(
        "the workspace is in use by another call that runs at this moment; calls that run at the same time "
        "need a workspace each");
    return;
  }
  next_ = all.first;
  if (next_ != nullptr) next_->before_ = this;
  all.first = this;
  noted_ = true;
}

WorkspaceUse::~WorkspaceUse() {
  if (!noted_) return;
  Uses& all = uses.get();
  const std::scoped_lock lock(all.mutex);
  if (next_ != nullptr) next_->before_ = before_;
  (before_ != nullptr ? before_->next_ : all.first) = next_;
}

}  // namespace regard
