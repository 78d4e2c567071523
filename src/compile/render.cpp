#include "compile/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/digest.h"
#include "base/embedded.h"
#include "base/text.h"
#include "compile/comments.h"
#include "compile/constants.h"
#include "compile/function_source.h"
#include "compile/hip_options.h"
#include "compile/host_options.h"
#include "kernels/arguments.h"
#include "plan/kernel.h"

namespace regard {
namespace {

/// The command that compiles a kernel by hand.
std::string command(TargetKind kind, const std::string& options, const std::string& name) {
  switch (kind) {
    case TargetKind::cpu:
      return fmt::format("c++ {0} -shared -o {1}.so {1}.cpp", options, name);
    case TargetKind::cuda:
      return fmt::format("nvcc {0} -cubin -o {1}.cubin {1}.cu", options, name);
    case TargetKind::hip:
      break;
  }
  return fmt::format(
      "clang {0} -x hip --offload-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -o {1}.co {1}.hip",
      options, name);
}

/// Portable kernels include what depends on the machine (instructions, layouts of fragments) from a folder of
/// this name, which stands for that of the target's kind: kernels/cuda.
constexpr std::string_view machine_folder = "kernels/machine/";

/// Stand for the text of the function that the kernel is compiled for.
constexpr std::string_view generated_file = "kernels/function/generated.h",
                           generated_range_file = "kernels/function/generated_range.h";

/// Appends a file without its comments, and with its `#include "..."` lines replaced by the files that they
/// name, each once.
Status inline_file(std::string_view path, std::string_view machine, const Signature& signature,
                   ReadFile* read, std::set<std::string, std::less<>>& done, std::string& out) {
  if (!done.emplace(path).second) return {};
  if (path == generated_file || path == generated_range_file) {
    const Result<std::string> generated =
        path == generated_file ? function_source(signature) : range_source(signature);
    if (!generated) return tl::unexpected(generated.error());
    out += *generated;
    return {};
  }
  const Result<std::string> text = read(path);
  if (!text) return tl::unexpected(text.error());
  const std::string code = without_comments(*text);
  std::string_view rest = code;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    constexpr std::string_view include = "#include \"";
    if (line == "#pragma once") continue;
    if (line.starts_with(include)) {
      const std::string_view name = line.substr(include.size(), line.rfind('"') - include.size());
      const std::string file = name.starts_with(machine_folder)
                                   ? fmt::format("kernels/{}/{}", machine, name.substr(machine_folder.size()))
                                   : std::string(name);
      if (Status status = inline_file(file, machine, signature, read, done, out); !status) return status;
      continue;
    }
    out.append(line).append("\n");
  }
  return {};
}

}  // namespace

std::string symbol_of(const KernelKey& key) {
  constexpr std::size_t most = 120;  // files get this name as well
  const std::string text = print(key);
  std::string words = key.algorithm.kernel + text.substr(text.find('|') + 1);
  words.resize(std::min(most, words.size()));
  for (char& c : words)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return fmt::format("regard_{}_{}", words, sha256(text).hex().substr(0, 16));
}

Result<Rendered> render(const KernelKey& key) {
  const Kernel* kernel = find_kernel(key.algorithm.kernel);
  if (kernel == nullptr) return invalid(fmt::format("{} is no kernel", in_quotes(key.algorithm.kernel)));
  return render(key, *kernel, data_file);
}

Result<Rendered> render(const KernelKey& key, const Kernel& kernel, ReadFile* read) {
  const Result<const Target*> target = find_target(key.target);
  if (!target) return tl::unexpected(target.error());

  const bool cpu = (*target)->on_cpu();

  Rendered rendered;
  rendered.symbol = symbol_of(key);
  if (cpu) rendered.options.assign(host_options.begin(), host_options.end());
  if ((*target)->kind == TargetKind::hip) rendered.options.assign(hip_options.begin(), hip_options.end());
  rendered.options.insert(rendered.options.end(), (*target)->options.begin(), (*target)->options.end());

  std::string& source = rendered.source;
  const std::string options = fmt::format("{}", fmt::join(rendered.options, " "));
  source = fmt::format("// {}\n", command((*target)->kind, options, rendered.symbol));
  source += fmt::format("// {}\n", print(key));
  source += fmt::format("#define REGARD_SYMBOL {}\n", rendered.symbol);
  // Kernels that are linked into one library define the same functions for different keys: each gets its own
  // namespace, as the linker would otherwise keep one definition for all.
  source += fmt::format("#define regard {}_kernel\n", rendered.symbol);
  source += constants(key, **target);
  std::set<std::string, std::less<>> done;
  const std::string path =
      fmt::format("kernels/{}/{}.{}", kernel.folder(), kernel.stem(), cpu ? "cpp" : "cu");
  if (Status status = inline_file(path, word((*target)->kind), key.signature, read, done, source); !status)
    return tl::unexpected(status.error());
  // A kernel from another version's folder would read the library's arguments at the wrong offsets.
  source += fmt::format(
      "static_assert(sizeof(regard::Arguments) == {},\n"
      "              \"kernels/arguments.h in REGARD_DATA_DIR is not that of the library\");\n",
      sizeof(Arguments));
  if (const KernelSchedule& schedule = kernel.schedule; !schedule.type.empty())
    source += fmt::format(
        "static_assert(sizeof(regard::{}) == {},\n"
        "              \"the schedule of {} in REGARD_DATA_DIR is not that of the library\");\n",
        schedule.type, schedule.bytes, kernel.name);
  return rendered;
}

}  // namespace regard
