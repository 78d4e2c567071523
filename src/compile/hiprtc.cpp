#include "compile/hiprtc.h"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "base/elf.h"
#include "base/interruption.h"
#include "base/process.h"
#include "base/text.h"
#include "compile/amd_resources.h"
#include "compile/clang_version.h"
#include "compile/rtc_program.h"
#include "compile/rtc_thread.h"

namespace regard {
namespace {

/// PyTorch's has no number. Those of ROCm 5 are opened so that the error says that they are too old.
constexpr std::string_view sonames[] = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so", "libhiprtc.so.5",
                                        "libamdhip64.so.5"};
constexpr RtcMake make = {.name = "hiprtc", .prefix = "hiprtc", .code = "Code", .sonames = sonames};

/// Environment variables from which hiprtc takes more options.
constexpr const char* more_options[] = {"HIPRTC_COMPILE_OPTIONS_APPEND", "HIPRTC_LINK_OPTIONS_APPEND"};

class Hiprtc final : public Toolchain {
 public:
  Hiprtc(RtcLibrary library, std::string identity)
      : library_(std::move(library)), identity_(std::move(identity)) {}

  std::string name() const override { return fmt::format("hiprtc ({})", library_.path); }
  std::string identity() const override { return identity_; }

 private:
  Result<Compiled> run(const CompileRequest& request) override {
    const std::string compiler = "hiprtc in " + in_quotes(library_.path) + " uses";
    if (Status status = knows_chip(identity_, request.options, compiler); !status)
      return tl::unexpected(status.error());
    Result<RtcCompiled> made = in_rtc_thread(
        [&](const std::atomic<bool>& stop) { return compile_by(make, library_, request, ".hip", {}, stop); });
    if (!made) return tl::unexpected(made.error());
    const Result<Resources> resources = amd_resources(made->code, chip_of(request.options));
    if (!resources)
      return fail(resources.error().kind, fmt::format("{}: {}", name(), resources.error().message));
    return Compiled{.binary = std::move(made->code), .log = std::move(made->log), .resources = *resources};
  }

  RtcLibrary library_;
  std::string identity_;
};

/// Why it cannot be used: the end of a sentence.
tl::unexpected<Error> unusable(const RtcLibrary& library, std::string_view why) {
  return fail(ErrorKind::no_kernel, fmt::format("hiprtc in {} {}", in_quotes(library.path), why));
}

/// What the code object of an empty kernel says.
Result<CompilerAnswer> ask_identity(const RtcLibrary& library, const std::atomic<bool>& stop) {
  RtcProgram empty(library, "extern \"C\" __attribute__((global)) void empty() {}\n", "empty.hip", stop);
  static constexpr const char* options[] = {"--offload-arch=gfx90a"};
  if (!empty.compile(options)) {
    if (empty.was_interrupted()) return interruption();
    if (const char* why = empty.refusal())
      return unusable(library, fmt::format("cannot say which build it is: {}", why));
    return unusable(library,
                    fmt::format("does not compile an empty kernel ({}): {}", empty.error(), empty.log()));
  }
  const std::string identity = hiprtc_identity(empty.code());
  if (identity.empty()) return unusable(library, "does not say which build it is");
  return CompilerAnswer{identity};
}

/// The library that compiles for hiprtc, if it is loaded.
std::string comgr() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* file) {
        const std::string_view path = library->dlpi_name;
        if (!path.substr(path.rfind('/') + 1).starts_with("libamd_comgr")) return 0;
        *static_cast<std::string*>(file) = path;
        return 1;
      },
      &found);
  return found;
}

}  // namespace

std::vector<RtcLocation> hiprtc_locations(const std::string& setting, std::span<const std::string> packages,
                                          const std::string& rocm_path) {
  if (!setting.empty()) return {{"REGARD_HIPRTC", setting}};
  std::vector<RtcLocation> locations;
  for (const std::string& folder : packages) {
    locations.push_back({"the Python package rocm-sdk-core", folder + "/_rocm_sdk_core/lib"});
    locations.push_back({"PyTorch", folder + "/torch/lib"});
  }
  if (!rocm_path.empty()) locations.push_back({"ROCM_PATH", rocm_path + "/lib"});
  locations.push_back({"ROCm", "/opt/rocm/lib"});
  locations.push_back({"the system's loader", ""});
  return locations;
}

std::string hiprtc_identity(std::span<const std::byte> code_object) {
  const std::span<const std::byte> comment = elf_content(code_object, ".comment");
  const std::string_view text(reinterpret_cast<const char*>(comment.data()), comment.size());
  std::vector<std::string_view> parts = split(text, std::string_view("\0", 1));
  std::erase(parts, "");
  return clang_version(text) == 0 ? "" : fmt::format("{}", fmt::join(parts, "; "));
}

Result<std::unique_ptr<Toolchain>> find_hiprtc(std::span<const RtcLocation> locations,
                                               CompilerMemory* memory) {
  const Result<RtcLibrary> library = open_rtc(make, locations);
  if (!library) {
    if (is_scarce(library)) return tl::unexpected(library.error());
    return fail(ErrorKind::no_kernel,
                fmt::format("no hiprtc (HIP's run-time compiler); searched {}; install ROCm 6.4 or later, or "
                            "set REGARD_HIPRTC to its libhiprtc.so",
                            library.error().message));
  }
  const std::string compiler = comgr();
  const Result<CompilerAnswer> answer = recall_or_ask(
      memory, library->path, fmt::format(" {}", state_of_program(compiler)), [&]() -> Result<CompilerAnswer> {
        Result<CompilerAnswer> asked =
            in_rtc_thread([&](const std::atomic<bool>& stop) { return ask_identity(*library, stop); });
        if (asked) asked->lasting = comgr() == compiler;  // otherwise the key lacks its state
        return asked;
      });
  if (!answer) return tl::unexpected(answer.error());
  if (const int version = clang_version(answer->identity); version < oldest_clang)
    return unusable(*library,
                    fmt::format("uses clang {}, which is too old; install ROCm 6.4 or later, or set "
                                "REGARD_HIPRTC to its libhiprtc.so",
                                version));
  std::string identity = "hiprtc; " + answer->identity;
  for (const char* name : more_options)
    if (const char* const set = variable(name)) identity += fmt::format("; {}={}", name, set);
  return std::make_unique<Hiprtc>(*library, std::move(identity));
}

}  // namespace regard
