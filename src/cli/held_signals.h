// Signals that end the command (Ctrl-C, kill, a closed terminal) wait while a file is being written or a
// kernel compiled.
#pragma once

#include <array>

namespace regard::cli {

/// While an object exists, signals that would end the process are only recorded. Its destructor lets the last
/// of them take effect; by then, half-finished work has been undone. A nested object changes nothing.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Whether to stop.
  static bool arrived();

 private:
  std::array<bool, 4> held_{};
};

}  // namespace regard::cli
