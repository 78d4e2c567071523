// A prepared plan, this machine and the available kernels as JSON, for every API.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/prepared.h"

namespace regard {

/// The plan with, once prepared, the tier and seconds of each stage's kernel.
std::string describe(const PreparedPlan&);
/// Version, machine, targets, compiler, settings, cache, counters.
Result<std::string> describe_machine();
/// Kernels of a profile on a target, or, with neither, all built-in and cached ones; each with its tier and,
/// of a cached GPU kernel, its resources.
Result<std::string> list_kernels(std::string_view target, std::string_view profile);
/// Gets a kernel, by its text, from the tiers: which tier, how long it took, and what the compiler reported.
Result<std::string> prepare_kernel(std::string_view kernel);
/// list, stat, verify, gc, clean.
Result<std::string> cache_verb(std::string_view verb);

}  // namespace regard
