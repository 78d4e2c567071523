#include "aot/linker.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "aot/public_names.h"
#include "base/atomic_file.h"
#include "base/process.h"
#include "base/result.h"
#include "base/settings.h"
#include "base/text.h"
#include "compile/compiler_run.h"
#include "compile/environment.h"
#include "compile/host_compiler.h"
#include "compile/process.h"

namespace regard::aot {
namespace {

namespace fs = std::filesystem;

constexpr const char* name_of_parts = "regard_parts.o";  // cmake/library.cmake makes it

tl::unexpected<Error> cannot_link(const std::string& why) {
  return fail(ErrorKind::no_kernel, "the outputs shared and static cannot be linked: " + why);
}

/// The bundle between the two symbols that engine/bundles.cpp looks for.
std::string assembly(const std::string& bundle) {
  return fmt::format(
      "  .section .rodata.regard_embedded_bundle,\"a\"\n"
      "  .balign 64\n"
      "  .globl regard_embedded_bundle\n"
      "regard_embedded_bundle:\n"
      "  .incbin \"{}\"\n"
      "  .globl regard_embedded_bundle_end\n"
      "regard_embedded_bundle_end:\n"
      "  .section .note.GNU-stack,\"\",%progbits\n",
      bundle);
}

/// Every compiler adds these libraries on its own.
bool is_added_anyway(std::string_view library) {
  return library.starts_with("libc.so") || library.starts_with("libgcc_s.so") ||
         library.starts_with("ld-linux");
}

/// The program's output.
Result<std::string> run(const std::vector<std::string>& command, const std::string& folder) {
  Result<Finished> finished = run_process(command, folder, {.environment = {"TMPDIR=" + folder}});
  if (!finished) return tl::unexpected(finished.error());
  if (finished->succeeded) return std::move(finished->output);
  const std::string why =
      fmt::format("'{}' {}:\n{}", shell_text(command), finished->ended(), finished->output);
  if (says_scarce(finished->output)) return fail(ErrorKind::no_memory, why);
  return cannot_link(why);
}

Status move(const std::string& made, const std::string& file) {
  std::error_code error;
  fs::rename(made, file, error);
  if (error)
    return fail(kind_of(error.value(), ErrorKind::no_kernel),
                fmt::format("cannot write {}: {}", in_quotes(file), error.message()));
  return {};
}

}  // namespace

/// A program that contains the parts must link the same libraries as this one.
Status Linker::read_libraries(const std::string& library) {
  const Result<std::string> headers = run({objdump_, "-p", library}, "/");
  if (!headers) return tl::unexpected(headers.error());
  for (std::string_view line : split(*headers, "\n")) {
    constexpr std::string_view key = "  NEEDED ";
    if (!line.starts_with(key)) continue;
    line.remove_prefix(line.find_last_of(' ') + 1);
    if (!is_added_anyway(line)) libraries_.push_back(fmt::format("-l:{}", line));
  }
  return {};
}

Result<Linker> Linker::find() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  Linker linker;
  const std::string library = library_path();
  linker.parts_ = (fs::path(library).parent_path() / name_of_parts).string();
  if (std::error_code ignored; !fs::is_regular_file(linker.parts_, ignored)) {
    return cannot_link(fmt::format(
        "{}, from which they are made, is not next to {}; an installation from source has it, a Python "
        "wheel does not",
        name_of_parts, in_quotes(library)));
  }
  const std::string path = search_path();
  for (const std::string& word : host_compiler_words(current->cxx)) {
    linker.compiler_ = find_program(word, path);
    if (!linker.compiler_.empty()) break;
  }
  if (linker.compiler_.empty())
    return cannot_link("there is no host C++ compiler; install g++ or set REGARD_CXX to the path of one");
  for (const auto& [program, name] :
       {std::pair{&linker.objcopy_, "objcopy"}, {&linker.objdump_, "objdump"}, {&linker.ar_, "ar"}}) {
    *program = find_program(name, path);
    if (program->empty())
      return cannot_link(fmt::format("there is no {} on PATH; it comes with the package binutils", name));
  }
  if (Status status = linker.read_libraries(library); !status) return tl::unexpected(status.error());
  return linker;
}

Result<std::string> Linker::object(const Order& order) const {
  const auto in_folder = [&](const char* name) { return order.folder + "/" + name; };
  std::string names;
  for (const std::string& name : public_names(public_header()))
    names += fmt::format("{} {}\n", name, in_namespace(name, order.name_space));
  if (Status status = write_atomic_file(in_folder("names.txt"), names); !status)
    return tl::unexpected(status.error());
  if (Status status = write_atomic_file(in_folder("bundle.s"), assembly(order.bundle)); !status)
    return tl::unexpected(status.error());

  const std::string object = order.name_space + "_regard.o";
  const std::vector<std::string> steps[] = {
      {compiler_, "-c", "bundle.s", "-o", "bundle.o"},
      {compiler_, "-r", "-nostdlib", "-o", "all.o", parts_, "bundle.o"},
      {objcopy_, "--redefine-syms=names.txt", "--wildcard",
       fmt::format("--keep-global-symbol={}_regard_*", order.name_space), "--strip-unneeded", "all.o",
       object}};
  for (const std::vector<std::string>& step : steps)
    if (const auto done = run(step, order.folder); !done) return tl::unexpected(done.error());
  return object;
}

Status Linker::archive(const Order& order, const std::string& object, const std::string& file) const {
  constexpr const char* made = "made.a";
  if (const auto done = run({ar_, "rcsD", made, object}, order.folder); !done)
    return tl::unexpected(done.error());
  return move(order.folder + "/" + made, file);
}

Status Linker::shared(const Order& order, const std::string& object, const std::string& file) const {
  constexpr const char* made = "made.so";
  const std::string exported = fmt::format("{{ global: {}_regard_*; local: *; }};\n", order.name_space);
  if (Status status = write_atomic_file(order.folder + "/exports.map", exported); !status) return status;
  // The result stays loaded after dlclose, as libregard.so does, and for the same reason.
  std::vector<std::string> command = {compiler_,
                                      "-shared",
                                      "-o",
                                      made,
                                      object,
                                      "-Wl,-soname," + fs::path(file).filename().string(),
                                      "-Wl,--version-script=exports.map",
                                      "-Wl,-z,nodelete",
                                      "-Wl,-z,defs",
                                      "-Wl,--build-id=none",
                                      "-Wl,--strip-all",
                                      "-Wl,--as-needed"};
  command.insert(command.end(), libraries_.begin(), libraries_.end());
  if (const auto done = run(command, order.folder); !done) return tl::unexpected(done.error());
  return move(order.folder + "/" + made, file);
}

}  // namespace regard::aot
