// One compile by a run-time compiler.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compile/rtc_library.h"
#include "compile/rtc_use.h"
#include "compile/toolchain.h"

namespace regard {

/// Destroyed with its scope. It ends early once `stop` is true, if the compiler can be asked to.
class RtcProgram {
 public:
  RtcProgram(const RtcLibrary&, const std::string& source, const std::string& name,
             const std::atomic<bool>& stop);
  ~RtcProgram();
  RtcProgram(const RtcProgram&) = delete;
  RtcProgram& operator=(const RtcProgram&) = delete;

  bool compile(std::span<const char* const> options);

  /// Why it was not compiled, when the reason is not in the source.
  const char* refusal() const { return use_.refusal(); }
  bool was_interrupted() const { return stop_ && result_ != 0; }
  std::string error() const { return library_.error_text(result_); }
  std::string log() const { return text(library_.log_size, library_.log); }
  std::string ptx() const { return text(library_.ptx_size, library_.ptx); }
  std::vector<std::byte> code() const;

 private:
  static int should_stop(void* self, void*);
  std::string text(int (*size_of)(RtcHandle, std::size_t*), int (*copy)(RtcHandle, char*)) const;

  const RtcUse use_;
  const RtcLibrary& library_;
  const std::atomic<bool>& stop_;
  RtcHandle handle_ = nullptr;
  int result_ = 0;
};

/// The results of compiling a kernel.
struct RtcCompiled {
  std::vector<std::byte> code;
  std::string log, ptx;
};

/// `ending` is that of the source's file. A failure is described as Toolchain::compile() says.
Result<RtcCompiled> compile_by(const RtcMake&, const RtcLibrary&, const CompileRequest&,
                               std::string_view ending, std::span<const char* const> always,
                               const std::atomic<bool>& stop);

}  // namespace regard
