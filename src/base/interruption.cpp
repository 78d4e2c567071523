#include "base/interruption.h"

#include <atomic>

namespace regard {
namespace {
constinit std::atomic<int (*)()> who_knows{nullptr};
}

void ask_whether_interrupted(int (*asked)()) {
  who_knows = asked;
}

bool interrupted() {
  int (*const asked)() = who_knows.load();
  return asked != nullptr && asked() != 0;
}

}  // namespace regard
