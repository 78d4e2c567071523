// Links a library of its own out of this library's parts and a bundle.
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
    std::string folder;  ///< an empty one, for this alone
    std::string bundle;  ///< its path from there; letters, digits, "_", "." and "/"
  };
  /// "te_regard.o" in the folder: all of the library with the bundle in it. Its symbols that others see are
  /// the C ABI's under the namespace, and no other.
  Result<std::string> object(const Order&) const;
  /// The library of such an object, which has the name `file` from then on.
  Status archive(const Order&, const std::string& object, const std::string& file) const;
  Status shared(const Order&, const std::string& object, const std::string& file) const;

  /// What a program with the object in it is linked with: words for a compiler.
  const std::vector<std::string>& libraries() const { return libraries_; }

 private:
  Status read_libraries(const std::string& library);

  std::string parts_, compiler_, objcopy_, objdump_, ar_;
  std::vector<std::string> libraries_;
};

}  // namespace regard::aot
