// Links a separate library out of this library's parts and a bundle.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace regard::aot {

class Linker {
 public:
  /// Finds the parts and the programs; an error says what is missing.
  static Result<Linker> find();

  struct Order {
    std::string name_space;
    std::string folder;  ///< an empty folder, used only for this
    std::string bundle;  ///< its path from there; letters, digits, "_", "." and "/"
  };
  /// "te_regard.o" in the folder: the whole library with the bundle in it. It exports the C ABI under the
  /// namespace, and no other symbols.
  Result<std::string> object(const Order&) const;
  /// Makes a library of such an object, which is named `file` from then on.
  Status archive(const Order&, const std::string& object, const std::string& file) const;
  Status shared(const Order&, const std::string& object, const std::string& file) const;

  /// What a program that contains the object is linked with: words for a compiler.
  const std::vector<std::string>& libraries() const { return libraries_; }

 private:
  Status read_libraries(const std::string& library);

  std::string parts_, compiler_, objcopy_, objdump_, ar_;
  std::vector<std::string> libraries_;
};

}  // namespace regard::aot
