#include "base/amd_code.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/elf.h"

namespace regard::amd {
namespace {

/// The numbers are EF_AMDGPU_MACH_… and the families those of LLVM's AMDGPU guide.
struct TargetOfCode {
  std::string_view name;
  unsigned machine;                       ///< in the ELF header's flags
  std::array<std::string_view, 8> chips;  ///< of a generic target
};
constexpr unsigned machine_mask = 0xff;
constexpr TargetOfCode known[] = {
    {"gfx90a", 0x3f, {}},
    {"gfx942", 0x4c, {}},
    {"gfx950", 0x4f, {}},
    {"gfx1100", 0x41, {}},
    {"gfx1201", 0x4e, {}},
    {"gfx9-4-generic", 0x5f, {"gfx940", "gfx941", "gfx942", "gfx950"}},
    {"gfx11-generic",
     0x54,
     {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}},
    {"gfx12-generic", 0x59, {"gfx1200", "gfx1201"}},
};

}  // namespace

bool runs_on_chip(std::string_view target, std::string_view chip) {
  if (target == chip) return true;
  const auto* const found = std::ranges::find(known, target, &TargetOfCode::name);
  return found != std::end(known) && std::ranges::find(found->chips, chip) != found->chips.end();
}

std::string_view generic_target_of(std::string_view chip) {
  for (const TargetOfCode& target : known)
    if (!chip.empty() && std::ranges::find(target.chips, chip) != target.chips.end()) return target.name;
  return {};
}

Result<std::string_view> target_of(std::span<const std::byte> code_object) {
  const auto* const text = reinterpret_cast<const char*>(code_object.data());
  for (const std::string_view magic : {"__CLANG_OFFLOAD_BUNDLE__", "CCOB"})
    if (std::string_view(text, code_object.size()).starts_with(magic))
      return invalid(
          "it is clang's bundle, which can hold code for several chips; compile with --no-gpu-bundle-output");
  if (const char* const defect = code_object_defect(code_object, EM_AMDGPU)) return invalid(defect);
  const unsigned machine = value_at<Elf64_Ehdr>(code_object, 0)->e_flags & machine_mask;
  const auto* const found = std::ranges::find(known, machine, &TargetOfCode::machine);
  if (found == std::end(known))
    return invalid(fmt::format("its code is for a chip without a target (number {:#x})", machine));
  return found->name;
}

}  // namespace regard::amd
