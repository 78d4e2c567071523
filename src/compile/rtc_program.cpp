#include "compile/rtc_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/interruption.h"
#include "compile/scratch_folder.h"

namespace regard {

RtcProgram::RtcProgram(const RtcLibrary& library, const std::string& source, const std::string& name,
                       const std::atomic<bool>& stop)
    : library_(library), stop_(stop) {
  if (refusal() != nullptr) return;
  result_ = library.create(&handle_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  if (result_ == 0 && library.set_callback != nullptr) library.set_callback(handle_, should_stop, this);
}

RtcProgram::~RtcProgram() {
  if (handle_ != nullptr) library_.destroy(&handle_);
}

bool RtcProgram::compile(std::span<const char* const> options) {
  if (handle_ == nullptr) return false;
  result_ = library_.compile(handle_, static_cast<int>(options.size()), options.data());
  wait_for_rtc_at_exit();
  return result_ == 0;
}

std::vector<std::byte> RtcProgram::code() const {
  std::size_t size = 0;
  if (library_.code_size(handle_, &size) != 0 || size > largest_binary_bytes) return {};
  std::vector<std::byte> bytes(size);
  if (library_.code(handle_, reinterpret_cast<char*>(bytes.data())) != 0) return {};
  return bytes;
}

/// NVRTC calls this now and then while it compiles. Meanwhile it also creates objects that it keeps using, so
/// the exit handler must be registered again.
int RtcProgram::should_stop(void* self, void*) {
  wait_for_rtc_at_exit();
  const auto& program = *static_cast<const RtcProgram*>(self);
  return program.stop_ || program.refusal() != nullptr;
}

std::string RtcProgram::text(int (*size_of)(RtcHandle, std::size_t*), int (*copy)(RtcHandle, char*)) const {
  std::size_t size = 0;
  if (size_of == nullptr || handle_ == nullptr || size_of(handle_, &size) != 0 || size == 0 ||
      size > largest_binary_bytes)
    return "";
  std::string copied(size, '\0');
  if (copy(handle_, copied.data()) != 0) return "";
  // NVRTC's size includes the terminating zero; hiprtc writes none.
  copied.resize(std::min(copied.find('\0'), size));
  return copied;
}

Result<RtcCompiled> compile_by(const RtcMake& make, const RtcLibrary& library, const CompileRequest& request,
                               std::string_view ending, std::span<const char* const> always,
                               const std::atomic<bool>& stop) {
  std::vector<const char*> options;
  for (const std::string& option : request.options) options.push_back(option.c_str());
  options.insert(options.end(), always.begin(), always.end());

  const std::string file = request.name + std::string(ending);
  RtcProgram program(library, request.source, file, stop);
  const bool succeeded = program.compile(options);
  RtcCompiled compiled{.log = program.log()};
  if (succeeded) compiled.code = program.code();
  if (program.was_interrupted()) return interruption();
  if (const char* why = program.refusal(); why != nullptr && !succeeded)
    return fail(ErrorKind::no_kernel, fmt::format("{} cannot compile {}: {}", make.name, request.name, why));
  if (compiled.code.empty()) {
    return fail(
        ErrorKind::no_kernel,
        fmt::format("compiling {} failed ({}); options: {}; {}; the compiler said:\n{}", request.name,
                    succeeded ? "no machine code" : program.error(), fmt::join(options, " "),
                    keep_source(file, request.source), compiled.log.empty() ? "(nothing)" : compiled.log));
  }
  compiled.ptx = program.ptx();
  return compiled;
}

}  // namespace regard
