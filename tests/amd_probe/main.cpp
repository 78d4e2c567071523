// Compares the instructions of this machine's AMD GPUs with the emulator's tables: ./dev gpu-test begins with
// it. Prints a line for each instruction of each GPU, "ok" or "WRONG" first; the exit code is 0 if all are
// ok.
#include <fmt/format.h>

#include <cstdio>

#include "amd_probe/probe.h"
#include "compile/hip_options.h"
#include "compile/toolchain.h"
#include "plan/target.h"

namespace regard::probe {
namespace {

using emulator::hip::Chip;

Result<const Target*> target_of(const gpu::Device& device) {
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  for (const Target& target : *all)  // preferred ones first
    if (target.kind == TargetKind::hip && gpu::runs_on(device, target.name)) return &target;
  return fail(ErrorKind::refused, fmt::format("no target is for {}", device.chip));
}

Result<Probe> probe_of(const gpu::Device& device, const Target& target, const Chip& chip) {
  const Result<Toolchain*> toolchain = toolchain_for(target);
  if (!toolchain) return tl::unexpected(toolchain.error());
  CompileRequest request{symbol, source_for(chip), {hip_options.begin(), hip_options.end()}};
  request.options.insert(request.options.end(), target.options.begin(), target.options.end());
  Result<Compiled> compiled = (*toolchain)->compile(request);
  if (!compiled) return tl::unexpected(compiled.error());
  return Probe::load(device, chip, std::move(compiled->binary));
}

/// Prints the line of an instruction. Returns whether it is as its table says.
bool report(const gpu::Device& device, std::string_view instruction, const Result<std::string>& difference) {
  const std::string wrong = difference ? *difference : difference.error().message;
  fmt::print("{} {} {} {}{}{}\n", wrong.empty() ? "ok" : "WRONG", device.ordinal, device.chip, instruction,
             wrong.empty() ? "" : ": ", wrong);
  return wrong.empty();
}

bool is_as_tables_say(const gpu::Device& device) {
  const Result<const Target*> target = target_of(device);
  if (!target) return report(device, "all", tl::unexpected(target.error()));
  const Chip& chip = emulator::hip::chip_named((*target)->name);
  const Result<Probe> probe = probe_of(device, **target, chip);
  if (!probe) return report(device, "all", tl::unexpected(probe.error()));
  bool right = true;
  for (const emulator::hip::Matrix& matrix : emulator::hip::matrices)
    if (has(chip, matrix)) right &= report(device, matrix.name, probe->difference(matrix));
  if (has_transposed_read(chip))
    right &= report(device, "ds_read_b64_tr_b16", probe->difference(emulator::hip::transposed_read));
  return right;
}

int main() {
  const Result<std::vector<gpu::Device>>& devices = gpu::devices(*gpu::find_backend("hip"));
  if (!devices) {
    fmt::print(stderr, "{}\n", devices.error().message);
    return 2;
  }
  bool right = true;
  for (const gpu::Device& device : *devices) right &= is_as_tables_say(device);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace regard::probe

int main() {
  return regard::probe::main();
}
