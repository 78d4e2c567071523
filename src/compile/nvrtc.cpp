#include "compile/nvrtc.h"

#include <fmt/format.h>

#include <atomic>
#include <span>

#include "base/interruption.h"
#include "base/text.h"
#include "compile/nvrtc_thread.h"
#include "compile/nvrtc_use.h"
#include "compile/scratch_folder.h"

namespace regard {
namespace {

/// Always added: ptxas reports the resources that the kernel takes (compile/resources.h).
constexpr const char* verbose = "--ptxas-options=--verbose";

/// One compile; destroyed with its scope. It ends early once `stop` is true.
class Program {
 public:
  Program(const NvrtcLibrary& nvrtc, const std::string& source, const std::string& name,
          const std::atomic<bool>& stop)
      : nvrtc_(nvrtc), stop_(stop) {
    if (refusal() != nullptr) return;
    result_ = nvrtc.nvrtcCreateProgram(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
    if (result_ == 0 && nvrtc.nvrtcSetFlowCallback != nullptr) {
      nvrtc.nvrtcSetFlowCallback(program_, should_stop, this);
    }
  }
  ~Program() {
    if (program_ != nullptr) nvrtc_.nvrtcDestroyProgram(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  bool compile(std::span<const char* const> options) {
    if (program_ == nullptr) return false;
    result_ = nvrtc_.nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
    wait_for_nvrtc_at_exit();
    return result_ == 0;
  }
  /// Why it was not compiled, when the reason is not in the source.
  const char* refusal() const { return use_.refusal(); }
  bool was_interrupted() const { return stop_ && result_ != 0; }
  std::string error() const { return nvrtc_.nvrtcGetErrorString(result_); }
  std::string log() const { return text(nvrtc_.nvrtcGetProgramLogSize, nvrtc_.nvrtcGetProgramLog); }
  std::string ptx() const { return text(nvrtc_.nvrtcGetPTXSize, nvrtc_.nvrtcGetPTX); }
  std::vector<std::byte> cubin() const {
    std::size_t size = 0;
    if (nvrtc_.nvrtcGetCUBINSize(program_, &size) != 0 || size > largest_binary_bytes) return {};
    std::vector<std::byte> bytes(size);
    if (nvrtc_.nvrtcGetCUBIN(program_, reinterpret_cast<char*>(bytes.data())) != 0) return {};
    return bytes;
  }

 private:
  /// NVRTC calls this now and then while it compiles. Meanwhile it also creates objects that it keeps using,
  /// so the exit handler must be registered again.
  static int should_stop(void* self, void*) {
    wait_for_nvrtc_at_exit();
    const auto& program = *static_cast<const Program*>(self);
    return program.stop_ || program.refusal() != nullptr;
  }

  std::string text(int (*size_of)(NvrtcProgram, std::size_t*), int (*copy)(NvrtcProgram, char*)) const {
    std::size_t size = 0;
    if (program_ == nullptr || size_of(program_, &size) != 0 || size == 0 || size > largest_binary_bytes)
      return "";
    std::string copied(size, '\0');
    if (copy(program_, copied.data()) != 0) return "";
    copied.resize(copied.find('\0'));  // its size includes the terminating zero
    return copied;
  }

  const NvrtcUse use_;
  const NvrtcLibrary& nvrtc_;
  const std::atomic<bool>& stop_;
  NvrtcProgram program_ = nullptr;
  int result_ = 0;
};

class Nvrtc final : public Toolchain {
 public:
  Nvrtc(NvrtcLibrary library, std::string identity, std::vector<const char*> always)
      : library_(std::move(library)),
        identity_(fmt::format("{}; {}", identity, fmt::join(always, " "))),
        always_(std::move(always)) {}

  std::string name() const override { return fmt::format("NVRTC ({})", library_.path); }
  std::string identity() const override { return identity_; }

 private:
  Result<Compiled> run(const CompileRequest& request) override {
    return in_nvrtc_thread([&](const std::atomic<bool>& stop) { return run(request, stop); });
  }

  Result<Compiled> run(const CompileRequest& request, const std::atomic<bool>& stop) const {
    std::vector<const char*> options;
    for (const std::string& option : request.options) options.push_back(option.c_str());
    options.insert(options.end(), always_.begin(), always_.end());

    Program program(library_, request.source, request.name + ".cu", stop);
    const bool succeeded = program.compile(options);
    Compiled compiled{.log = program.log()};
    if (succeeded) compiled.binary = program.cubin();
    if (program.was_interrupted()) return interruption();
    if (const char* why = program.refusal(); why != nullptr && !succeeded) {
      return fail(ErrorKind::no_kernel, fmt::format("NVRTC cannot compile {}: {}", request.name, why));
    }
    if (compiled.binary.empty()) {
      return fail(ErrorKind::no_kernel,
                  fmt::format("compiling {} failed ({}); options: {}; {}; the compiler said:\n{}",
                              request.name, succeeded ? "no machine code" : program.error(),
                              fmt::join(options, " "), keep_source(request.name + ".cu", request.source),
                              compiled.log.empty() ? "(nothing)" : compiled.log));
    }
    const Result<Resources> resources = parse_ptxas_log(compiled.log, program.ptx());
    if (!resources) return tl::unexpected(resources.error());
    compiled.resources = *resources;
    return compiled;
  }

  NvrtcLibrary library_;
  std::string identity_;
  std::vector<const char*> always_;  ///< options
};

}  // namespace

std::string nvrtc_identity(std::string_view ptx) {
  std::string release, build;
  for (const std::string_view line : split(ptx, "\n")) {
    constexpr std::string_view build_words = "Compiler Build ID: ", release_words = "compilation tools, ";
    if (const std::size_t at = line.find(build_words); at != std::string_view::npos) {
      build = line.substr(at + build_words.size());
    } else if (const std::size_t tools = line.find(release_words); tools != std::string_view::npos) {
      release = line.substr(tools + release_words.size());
    }
  }
  return release.empty() || build.empty() ? "" : fmt::format("NVRTC {}; {}", release, build);
}

namespace {

/// What it reports about itself when it compiles an empty kernel.
Result<CompilerAnswer> ask_identity(const NvrtcLibrary& library, std::span<const char* const> options,
                                    const std::atomic<bool>& stop) {
  Program empty(library, "extern \"C\" __global__ void empty() {}", "empty.cu", stop);
  if (!empty.compile(options)) {
    if (empty.was_interrupted()) return interruption();
    if (const char* why = empty.refusal()) {
      return fail(ErrorKind::no_kernel, fmt::format("NVRTC cannot say which build it is: {}", why));
    }
    return fail(ErrorKind::no_kernel, fmt::format("NVRTC in {} does not compile an empty kernel ({}): {}",
                                                  in_quotes(library.path), empty.error(), empty.log()));
  }
  const std::string identity = nvrtc_identity(empty.ptx());
  if (!identity.empty()) return CompilerAnswer{identity};
  return fail(ErrorKind::no_kernel,
              fmt::format("NVRTC in {} does not say which build it is", in_quotes(library.path)));
}

}  // namespace

// Compiling an empty kernel takes 0.1 s, much longer than loading a real one from the cache.
Result<std::unique_ptr<Toolchain>> make_nvrtc(const NvrtcLibrary& library, CompilerMemory* memory) {
  // Where there is a driver, NVRTC caches what it compiled, and then reports no registers or spills. Older
  // versions cache nothing and do not know the option.
  static constexpr const char* options[] = {verbose, "--no-cache"};
  const auto identify = [&](std::span<const char* const> with) {
    return recall_or_ask(
        memory, library.path, with.empty() ? "" : fmt::format(" {}", fmt::join(with, " ")), [&] {
          return in_nvrtc_thread(
              [&](const std::atomic<bool>& stop) { return ask_identity(library, with, stop); });
        });
  };
  std::span<const char* const> always = options;
  Result<CompilerAnswer> identity = identify(always.last(1));
  if (!identity && !is_scarce(identity)) {
    always = always.first(1);
    identity = identify({});
  }
  if (!identity) return tl::unexpected(identity.error());
  return std::make_unique<Nvrtc>(library, identity->identity,
                                 std::vector<const char*>(always.begin(), always.end()));
}

}  // namespace regard
