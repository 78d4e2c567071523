#include "compile/manifest.h"

#include <array>

#include "base/json.h"

namespace regard {
namespace {

using Kind = JsonEvent::Kind;

struct Number {
  std::string_view name;
  std::int64_t Resources::* member;
  bool required = true;  ///< entries of the first versions lack the others
};

/// Both kinds of spilled bytes are one number there.
constexpr Number numbers[] = {{"accumulator_moves", &Resources::accumulator_moves, false},
                              {"accumulators", &Resources::accumulators, false},
                              {"barriers", &Resources::barriers},
                              {"matrix", &Resources::matrix, false},
                              {"registers", &Resources::registers},
                              {"scalar_moves", &Resources::scalar_moves, false},
                              {"scalar_registers", &Resources::scalar_registers, false},
                              {"scalar_spills", &Resources::scalar_spills, false},
                              {"shared_bytes", &Resources::shared_bytes},
                              {"spill_bytes", &Resources::spill_store_bytes},
                              {"stack_bytes", &Resources::stack_bytes},
                              {"waves", &Resources::waves, false}};
constexpr std::string_view warnings = "warnings";

/// Reads the members of the object "resources". They are used only if all that readers look for are there.
class ResourcesReader {
 public:
  void begin() { *this = {}; }

  void read_member(const JsonEvent& json) {
    in_warnings_ = json.key == warnings;
    if (in_warnings_) take(std::size(numbers), json.kind == Kind::list);
    for (std::size_t i = 0; i < std::size(numbers); ++i) {
      if (json.key != numbers[i].name) continue;
      take(i, json.kind == Kind::integer);
      found_.*numbers[i].member = json.integer;
    }
  }

  void read_inside(const JsonEvent& json) {
    if (!in_warnings_) return;
    if (json.kind == Kind::text) found_.performance_warnings.emplace_back(json.text);
    if (json.kind != Kind::text && json.kind != Kind::end) odd_ = true;
  }

  std::optional<Resources> found() const {
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (!given_[i] && (i == std::size(numbers) || numbers[i].required)) return std::nullopt;
    return odd_ ? std::nullopt : std::optional(found_);
  }

 private:
  void take(std::size_t member, bool right) {
    given_[member] = true;
    odd_ = odd_ || !right;
  }

  Resources found_;
  std::array<bool, std::size(numbers) + 1> given_{};
  bool odd_ = false, in_warnings_ = false;
};

}  // namespace

std::string resources_json(const Resources& used) {
  Resources written = used;
  written.spill_store_bytes += used.spill_load_bytes;
  JsonWriter json;
  json.object([&] {
    for (const Number& number : numbers) json.member(number.name, written.*number.member);
    json.member(warnings, written.performance_warnings);
  });
  return json.take();
}

Manifest::Manifest(std::string_view json) {
  ResourcesReader reader;
  bool in_resources = false;
  const Status read = read_json(json, "a manifest", [&](const JsonEvent& event) -> Status {
    if (event.depth == 1 && event.kind != Kind::end) {
      in_resources = event.key == "resources" && event.kind == Kind::object;
      if (event.key == "resources") reader.begin();
      if (event.key == "kernel") kernel = event.kind == Kind::text ? event.text : "";
      if (event.key == "compile_seconds" && event.kind == Kind::real) compile_seconds = event.real;
      if (event.key == "compiler") compiler = event.kind == Kind::text ? event.text : "";
    } else if (in_resources && event.depth == 2) {
      if (event.kind != Kind::end) reader.read_member(event);
    } else if (in_resources && event.depth > 2) {
      reader.read_inside(event);
    }
    return {};
  });
  if (!read) {
    *this = Manifest();
    return;
  }
  resources = reader.found();
}

}  // namespace regard
