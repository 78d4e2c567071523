#include "compile/compiler_identity.h"

#include <cstdint>
#include <filesystem>

#include "base/digest.h"
#include "base/files.h"
#include "base/text.h"
#include "compile/environment.h"
#include "compile/process.h"
#include "compile/toolchain.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

/// The settings file that a line of `-v` names; empty: none.
std::string_view settings_file(std::string_view line) {
  for (const std::string_view words : {std::string_view("Configuration file: "),  // clang's
                                       std::string_view("Reading specs from ")})  // gcc's
    if (line.starts_with(words)) return line.substr(words.size());
  return "";
}

/// The contents of the settings files. One that cannot be read has no effect, or makes the compiler fail as
/// well.
Result<std::string> settings_identity(std::string_view verbose_text) {
  constexpr std::uint64_t most = 1 << 20;
  std::string identity;
  for (const std::string_view line : split(verbose_text, "\n")) {
    const std::string file(settings_file(line));
    if (file.empty()) continue;
    const Result<std::string> text = read_file(file, most, Links::followed);
    if (is_scarce(text)) {
      return fail(text.error().kind, "cannot read " + in_quotes(file) +
                                         ", where the compiler has settings: " + text.error().message);
    }
    identity += "; settings " + sha256(text.value_or("")).hex();
  }
  return identity;
}

/// Whether the output stays valid as long as the compiler's file does. A wrapper such as ccache passes on
/// what a compiler elsewhere says, and a settings file can change.
bool speaks_for_itself(std::string_view verbose_text, const std::string& program) {
  constexpr std::string_view clang_folder = "InstalledDir: ", gcc_called_as = "COLLECT_GCC=";
  std::error_code error;
  const fs::path file = fs::canonical(program, error);
  bool itself = false;
  for (const std::string_view line : split(verbose_text, "\n")) {
    if (!settings_file(line).empty()) return false;
    if (line.starts_with(clang_folder)) {
      itself = fs::canonical(line.substr(clang_folder.size()), error) == file.parent_path();
    } else if (line.starts_with(gcc_called_as)) {
      const fs::path called(line.substr(gcc_called_as.size()));
      itself = called.is_absolute() && fs::canonical(called, error) == file;
    }
  }
  return itself;
}

}  // namespace

// "gcc version 12.2.0 (Debian 12.2.0-14)", "clang version 19.1.7 (https://... 0123abcd)" and "Target:
// x86_64-..."
std::string compiler_identity(std::string_view verbose_text) {
  std::string version, target;
  for (const std::string_view line : split(verbose_text, "\n")) {
    if (line.starts_with("Target:")) {
      target = line;
    } else if (version.empty() && !line.starts_with("Configured with") &&
               line.find(" version ") != std::string_view::npos) {
      version = line;
    }
  }
  while (!version.empty() && version.back() == ' ') version.pop_back();
  return version.empty() ? "" : version + "; " + target;
}

// `clang++ -v` takes 20 ms, g++ 1 to 2 ms: longer than loading a kernel from the cache.
Result<CompilerAnswer> identify_compiler(const std::string& path, CompilerMemory* memory) {
  Result<CompilerAnswer> said = recall_or_ask(memory, path, "", [&]() -> Result<CompilerAnswer> {
    const Result<Finished> asked = run_process({path, "-v"}, "/", {.seconds = 20});
    if (is_scarce(asked)) return tl::unexpected(asked.error());
    if (!asked) return invalid("cannot be run");
    if (!asked->succeeded) return invalid(asked->ended());
    const std::string identity = compiler_identity(asked->output);
    if (identity.empty()) return invalid("names no compiler version");
    const Result<std::string> chosen = settings_identity(asked->output);
    if (!chosen) return tl::unexpected(chosen.error());
    return CompilerAnswer{identity + *chosen, speaks_for_itself(asked->output, path)};
  });
  if (said) said->identity += environment_identity();
  return said;
}

// A wrapper's file says nothing about the compiler that it calls.
Status IdentifiedCompiler::unchanged(bool ask) const {
  if (state_of_program(path) != state || environment_identity() != environment) return was_replaced();
  if (answer.lasting || !ask) return {};
  const Result<CompilerAnswer> now = identify_compiler(path, nullptr);
  if (is_scarce(now))
    return fail(now.error().kind, "could not be asked again what it is: " + now.error().message);
  return now && now->identity == answer.identity ? Status() : was_replaced();
}

Result<IdentifiedCompiler> identified(const std::string& program, CompilerMemory* memory) {
  IdentifiedCompiler found{.path = program, .state = state_of_program(program)};
  const Result<CompilerAnswer> answer = identify_compiler(program, memory);
  if (!answer) return tl::unexpected(answer.error());
  found.answer = *answer;
  found.environment = environment_identity();
  return found;
}

}  // namespace regard
