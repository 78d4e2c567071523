#include "compile/toolchain.h"

#include <chrono>

#include "compile/job_gate.h"
#include "compile/slow_notice.h"

namespace regard {

Result<Compiled> Toolchain::compile(const CompileRequest& request) {
  const CompileSlot slot(compile_limit_seconds);
  SlowNotice notice(request.name, name());
  const auto start = std::chrono::steady_clock::now();
  const bool before = is_as_identified(Look::thorough);
  Result<Compiled> compiled = run(request);
  const bool same = before && is_as_identified(Look::thorough);
  if (!same) replaced_ = true;
  if (compiled) compiled->by_the_identified = same;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  notice.end(compiled.has_value(), seconds);
  if (compiled) compiled->seconds = seconds;
  return compiled;
}

}  // namespace regard
