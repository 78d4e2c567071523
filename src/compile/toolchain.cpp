#include "compile/toolchain.h"

#include <chrono>

#include "base/interruption.h"
#include "compile/job_gate.h"
#include "compile/slow_notice.h"

namespace regard {

Result<Compiled> Toolchain::compile(const CompileRequest& request) {
  const CompileSlot slot(compile_limit_seconds);
  if (interrupted()) return interruption();
  SlowNotice notice(request.name, name());
  const auto start = std::chrono::steady_clock::now();
  const Status before = as_identified(Look::thorough);
  Result<Compiled> compiled = run(request);
  const Status same = before ? as_identified(Look::thorough) : before;
  if (is_interrupted(same)) compiled = interruption();
  if (!same && !is_scarce(same)) replaced_ = true;
  if (compiled && !same) compiled->doubt = same.error().message;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  notice.end(compiled.has_value(), seconds);
  if (compiled) compiled->seconds = seconds;
  return compiled;
}

}  // namespace regard
