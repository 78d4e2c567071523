#include "compile/constants.h"

#include <fmt/format.h>

#include <string_view>

namespace regard {
namespace {

#define REGARD_ENUMERATOR(name, word, doc) " " #name ","
constexpr std::string_view passes = "enum class Pass {" REGARD_PASS(REGARD_ENUMERATOR) " };\n";
constexpr std::string_view dtypes = "enum class DType {" REGARD_DTYPE(REGARD_ENUMERATOR) " };\n";
constexpr std::string_view dtypes_of_cuda =
    "enum class DType {" REGARD_COMMON_DTYPE(REGARD_ENUMERATOR) " };\n";
constexpr std::string_view enumerations =
    "enum class Mask {" REGARD_MASK(REGARD_ENUMERATOR) " };\n"
    "enum class Bias {" REGARD_BIAS(REGARD_ENUMERATOR) " };\n"
    "enum class Descale {" REGARD_DESCALE(REGARD_ENUMERATOR) " };\n"
    "enum class SlotType {" REGARD_SLOTS(REGARD_ENUMERATOR) " };\n"
    "enum class Positions {" REGARD_POSITIONS(REGARD_ENUMERATOR) " };\n"
    "enum class PageTable {" REGARD_PAGE_TABLE(REGARD_ENUMERATOR) " };\n"
    "enum class KvLayout {" REGARD_KV_LAYOUT(REGARD_ENUMERATOR) " };\n"
    "enum class Rope {" REGARD_ROPE(REGARD_ENUMERATOR) " };\n";
#undef REGARD_ENUMERATOR

// A constant's value and type as C++ text.
#define REGARD_CASE(name, word, doc) \
  case Enum::name:                   \
    return prefix + #name;
#define REGARD_VALUE(type, LIST)                      \
  std::string value_text(type value) {                \
    using Enum = type;                                \
    const std::string prefix = #type "::";            \
    switch (value) { LIST(REGARD_CASE) }              \
    return prefix;                                    \
  }                                                   \
  [[maybe_unused]] std::string_view type_text(type) { \
    return #type;                                     \
  }
REGARD_VALUE(Pass, REGARD_PASS)
REGARD_VALUE(DType, REGARD_DTYPE)
REGARD_VALUE(Mask, REGARD_MASK)
REGARD_VALUE(Bias, REGARD_BIAS)
REGARD_VALUE(Descale, REGARD_DESCALE)
REGARD_VALUE(SlotType, REGARD_SLOTS)
REGARD_VALUE(Positions, REGARD_POSITIONS)
REGARD_VALUE(PageTable, REGARD_PAGE_TABLE)
REGARD_VALUE(KvLayout, REGARD_KV_LAYOUT)
REGARD_VALUE(Rope, REGARD_ROPE)
#undef REGARD_VALUE
#undef REGARD_CASE

std::string value_text(bool value) {
  return value ? "true" : "false";
}
std::string_view type_text(bool) {
  return "bool";
}
std::string value_text(std::int64_t value) {
  return std::to_string(value);
}
std::string_view type_text(std::int64_t) {
  return "long long";
}

/// Functions are text of their own (function_source.h).
void add(std::string&, std::string_view, const InternedText&) {}

// No kernel uses all of them, and a failing compiler should report only what failed.
template <class T>
void add(std::string& text, std::string_view name, T value) {
  text += fmt::format("[[maybe_unused]] constexpr {} {} = {};\n", type_text(value), name, value_text(value));
}

}  // namespace

std::string constants(const KernelKey& key, const Target& target) {
  std::string text = "namespace regard {\n";
  text += passes;
  text += target.kind == TargetKind::cuda ? dtypes_of_cuda : dtypes;
  text += enumerations;

  text += "namespace config {\n";
#define REGARD_ADD_SIGNATURE(name) add(text, #name, key.signature.name);
#define REGARD_ADD_PRESENCE(name) add(text, #name, key.signature.name);
#define REGARD_ADD_SHAPE(name)
#define REGARD_ADD(category, type, name, default_value, doc) REGARD_ADD_##category(name)
  REGARD_PROBLEM_FIELDS(REGARD_ADD)
#undef REGARD_ADD
#undef REGARD_ADD_SIGNATURE
#undef REGARD_ADD_PRESENCE
#undef REGARD_ADD_SHAPE
#define REGARD_ADD(name, default_value, doc) add(text, #name, key.algorithm.name);
  REGARD_ALGORITHM_FIELDS(REGARD_ADD)
#undef REGARD_ADD
  text += "}\n";

  text += "namespace target {\n";
  if (target.on_cpu()) {
    add(text, "vector_bytes", std::int64_t{target.vector_bytes});
    add(text, "vector_registers", std::int64_t{target.vector_registers});
  } else {
    add(text, "wave", std::int64_t{target.wave});
    add(text, "dies", std::int64_t{target.dies});
  }
  for (Feature feature : features_of(target.kind)) add(text, word(feature), target.has(feature));
  text += "}\n}\n";
  return text;
}

}  // namespace regard
