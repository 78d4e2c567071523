// The tensors of a call where its target reads them: on a CPU the tensors themselves, on a GPU copies.
#pragma once

#include <string>
#include <vector>

#include "cli/tensors.h"
#include "regard/regard.hpp"

namespace regard::cli {

class OnTarget {
 public:
  /// `copied`: also on a CPU.
  OnTarget(const Tensors&, const Plan&, bool copied = false);

  const Arguments& arguments() const { return arguments_; }
  /// Until the target has finished everything.
  void wait() const;
  /// Copies everything back.
  void fetch() const;

 private:
  struct Copy {
    void* home;
    Memory memory;
  };
  std::string target_;
  Arguments arguments_;
  std::vector<Copy> copies_;
};

}  // namespace regard::cli
