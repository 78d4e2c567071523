#include "plan/sizes.h"

namespace regard {

Status lay_out(Workspace& workspace) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < workspace.bytes.size(); ++i) {
    if (workspace.bytes[i] > most - end) {
      return refused(
          "the workspace of this problem would not fit in 64-bit sizes; use a smaller batch or fewer splits");
    }
    workspace.offset[i] = end;
    end = round_up(end + workspace.bytes[i], 64);
  }
  workspace.total = end;
  return {};
}

}  // namespace regard
