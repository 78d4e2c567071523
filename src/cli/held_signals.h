// What ends the command (Ctrl-C, kill, a closed terminal) waits while a file is being written or a kernel
// compiled.
#pragma once

#include <array>

namespace regard::cli {

/// While one lives, signals that would end the process are only noted. Its end lets the last of them have its
/// effect; by then what was half done has been taken back. There is one at a time.
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
