// Problems that the dispatcher and the examples of AMD's own kernels are tested with, as problem texts. Long
// sequences are shorter here; everything else is as there.
#pragma once

#include <string>
#include <vector>

namespace regard::test {

/// Configurations for which two programs' results were compared.
std::vector<std::string> parity_problems();

/// The example's smoke test of forward: every combination of its values. Left out is what no target computes
/// yet, pages and an index into the cache, and what cannot be described, V with contiguous columns.
std::vector<std::string> forward_smoke_problems();

/// That of backward.
std::vector<std::string> backward_smoke_problems();

}  // namespace regard::test
