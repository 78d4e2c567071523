// The manifest of an ahead-of-time build: a TOML file that names targets, outputs and, in [[variants]], the
// problems to have kernels for (docs/build.md). Strict: a mistake is one sentence with file and line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/about.h"
#include "plan/kernel_key.h"
#include "plan/target.h"
#include "plan/tuning.h"
#include "plan/variant.h"

namespace regard::aot {

// X(enumerator, "word", "what it means"): docs/build.md is generated from them.
#define REGARD_OUTPUTS(X)                                                    \
  X(shared, "shared", "a shared library with the C ABI under the namespace") \
  X(archive, "static", "the same as a static library")                       \
  X(bundle, "bundle", "one file that has the kernels")                       \
  X(python, "python", "a wheel that carries the bundle")

#define REGARD_ENUMERATOR(name, word, doc) name,
enum class Output : std::uint8_t { REGARD_OUTPUTS(REGARD_ENUMERATOR) };
#undef REGARD_ENUMERATOR
std::string_view word(Output);

struct Manifest {
  std::string file;        ///< its path, as given
  std::string name_space;  ///< empty: none
  std::vector<const Target*> targets;
  std::vector<Output> outputs = {Output::bundle};
  Undeclared undeclared = Undeclared::jit;
  int undeclared_line = 0;
  std::vector<TunedProblem> tuning;  ///< the records of its targets
  bool wants(Output output) const { return std::ranges::find(outputs, output) != outputs.end(); }
  bool makes_library() const { return wants(Output::shared) || wants(Output::archive); }

  /// A problem text, or a line of a record.
  struct Asked {
    Problem problem;
    const Target* target;  ///< null: every target of the manifest
    std::string where;     ///< "seen.txt:12"
    int line;              ///< of the manifest
  };
  /// One [[variants]] table, or the tuning records.
  struct Variants {
    int line;
    std::string
        what;  ///< for people: "product", "profile flash", "problems", "record seen.txt", "tuning my.tuning"
    std::vector<Variant> products;  ///< from its own lists, or from a profile
    std::vector<Asked> problems;
  };
  std::vector<Variants> variants;

  struct Exclude {
    int line;
    Exclusion exclusion;
  };
  std::vector<Exclude> exclude;

  /// A code object that was made elsewhere.
  struct Binary {
    int line;
    std::string path;  ///< as this process opens it
    KernelKey key;
  };
  std::vector<Binary> binaries;

  std::vector<std::string> records;   ///< their paths, and that of the tuning records
  std::vector<std::string> warnings;  ///< sentences: what was left out
};

/// Reads the manifest and the records that it names.
Result<Manifest> read_manifest(const std::string& path);
/// The same for its text; the files that it names are looked for next to `path`.
Result<Manifest> parse_manifest(std::string_view text, const std::string& path);

}  // namespace regard::aot
