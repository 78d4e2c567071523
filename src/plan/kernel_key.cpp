#include "plan/kernel_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"
#include "plan/kernel.h"

namespace regard {

namespace {

/// Stands for the signature of a kernel that reads everything but the pass at run time.
constexpr std::string_view any = "any ";

bool takes_any(const KernelKey& key) {
  const Kernel* kernel = find_kernel(key.algorithm.kernel);
  return kernel != nullptr && kernel->is_generic();
}

}  // namespace

std::string print(const KernelKey& key) {
  std::string text = key.target + " " + key.algorithm.kernel;
#define REGARD_PRINT(name, default_value, doc) \
  if (key.algorithm.name != default_value) text += fmt::format(" " #name "={}", key.algorithm.name);
  REGARD_ALGORITHM_FIELDS(REGARD_PRINT)
#undef REGARD_PRINT
  text += " | ";
  if (takes_any(key)) return text.append(any).append(word(key.signature.pass));
  return text + print(key.signature);
}

std::span<const NamedField> algorithm_fields() {
  static constexpr NamedField fields[] = {
#define REGARD_FIELD(name, default_value, doc) {#name, &Algorithm::name},
      REGARD_ALGORITHM_FIELDS(REGARD_FIELD)
#undef REGARD_FIELD
  };
  return fields;
}

std::span<const std::string_view> algorithm_names() {
  static constexpr std::string_view names[] = {
#define REGARD_NAME(name, default_value, doc) #name,
      REGARD_ALGORITHM_FIELDS(REGARD_NAME)
#undef REGARD_NAME
  };
  return names;
}

std::string_view name_of(AlgorithmField field) {
  const auto found = std::ranges::find(algorithm_fields(), field, &NamedField::field);
  return found == algorithm_fields().end() ? std::string_view() : found->name;
}

AlgorithmField find_algorithm_field(std::string_view name) {
  const auto found = std::ranges::find(algorithm_fields(), name, &NamedField::name);
  return found == algorithm_fields().end() ? nullptr : found->field;
}

Status read_algorithm_word(std::string_view word, Algorithm& algorithm) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const AlgorithmField field = find_algorithm_field(name);
  if (field == nullptr)
    return invalid(
        fmt::format("unknown word {} of a kernel{}", in_quotes(word), suggestion(name, algorithm_names())));
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || value.empty())
    return invalid(fmt::format("{} needs a whole number, e.g. {}=64", in_quotes(word), name));
  algorithm.*field = number;
  return {};
}

Result<KernelKey> parse_kernel_key(std::string_view text) {
  const std::size_t bar = text.find(" | ");
  if (bar == std::string_view::npos) {
    return invalid(fmt::format(
        "{} is no kernel key; one reads 'cpu-avx2 cpu_forward block_q=64 block_k=96 | fwd bf16 d=128'",
        in_quotes(text)));
  }
  KernelKey key;
  std::vector<std::string_view> words;
  std::string_view rest = text.substr(0, bar);
  while (!rest.empty()) {
    const std::size_t space = rest.find(' ');
    words.push_back(rest.substr(0, space));
    rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  }
  if (words.size() < 2) {
    return invalid(fmt::format("{} does not begin with a target and a kernel, e.g. 'cpu-avx2 cpu_forward'",
                               in_quotes(text)));
  }
  key.target = words[0];
  key.algorithm.kernel = words[1];
  const Kernel* kernel = find_kernel(words[1]);
  if (kernel == nullptr)
    return invalid(
        fmt::format("{} is no kernel{}", in_quotes(words[1]), suggestion(words[1], kernel_names())));
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (Status status = read_algorithm_word(words[i], key.algorithm); !status)
      return tl::unexpected(status.error());
  }
  std::string_view words_of_signature = text.substr(bar + 3);
  if (takes_any(key) && words_of_signature.starts_with(any)) words_of_signature.remove_prefix(any.size());
  const Result<Signature> signature = parse_signature(words_of_signature);
  if (!signature) return tl::unexpected(signature.error());
  key.signature = takes_any(key) ? kernel->depends_on(*signature) : *signature;
  return key;
}

}  // namespace regard
