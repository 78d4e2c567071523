#include "plan/workspace.h"

#include "plan/sizes.h"

namespace regard {

Status WorkspaceLayout::lay_out() {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t end = 0;
  for (Part& part : parts) {
    if (part.bytes > most - end) {
      return refused(
          "the workspace of this problem would not fit in 64-bit sizes; use a smaller batch or fewer splits");
    }
    part.offset = end;
    end = round_up(end + part.bytes, 64);
  }
  total = end;
  return {};
}

}  // namespace regard
