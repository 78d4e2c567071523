#include "aot/code_object.h"

#include <fmt/format.h>

#include "base/amd_code.h"
#include "base/elf.h"
#include "base/shared_object.h"

namespace regard::aot {
namespace {

/// The error says why the target's chip cannot run it.
Status check_machine(std::span<const std::byte> bytes, const Target& target) {
  if (target.kind == TargetKind::hip) {
    const Result<std::string_view> made_for = amd::target_of(bytes);
    if (!made_for) return tl::unexpected(made_for.error());
    if (value_at<Elf64_Ehdr>(bytes, 0)->e_type == ET_REL)
      return invalid("it was compiled but not linked; leave out -c");
    return amd::runs_on_chip(*made_for, target.name) ? Status()
                                                     : invalid(fmt::format("its code is for {}", *made_for));
  }
  const char* const defect =
      target.on_cpu() ? shared_object_defect(bytes) : code_object_defect(bytes, EM_CUDA);
  return defect == nullptr ? Status() : invalid(defect);
}

}  // namespace

Status check_code_object(std::span<const std::byte> bytes, const Target& target, std::string_view symbol) {
  if (const Status status = check_machine(bytes, target); !status)
    return invalid(fmt::format("it is no binary for {}: {}", target.name, status.error().message));
  // The loader of shared objects sees only the dynamic symbols.
  if (find_function(bytes, SHT_DYNSYM, symbol) ||
      (target.on_gpu() && find_function(bytes, SHT_SYMTAB, symbol)))
    return {};
  return invalid(fmt::format("it has no function {}, by which this kernel is called", symbol));
}

}  // namespace regard::aot
