// A problem computed by the kernels of an AMD target on an emulated GPU.
#pragma once

#include <functional>
#include <string>

#include "support/case.h"

namespace regard::test {

/// Makes another source of a rendered one.
using Change = std::function<std::string(const std::string& source)>;

/// Computes the outputs. Returns an empty string or what is wrong.
std::string compute_on(const std::string& chip, Case&, const Change& change = {}, int seed = 1,
                       const std::string& family = "", std::string* lds = nullptr);

/// Plans the problem for `chip`, runs the stages, and checks the results by the oracle. Returns an empty
/// string or what is wrong. `change`: of the source of the main stage. `seed`: of the order of events.
/// `family`: as in PlanOptions. `options`: of the inputs. `lds`, if not null, gets what is counted of the
/// main stage (lds_report).
std::string mistakes_on(const std::string& chip, const std::string& problem, const Change& change = {},
                        int seed = 1, const std::string& family = "", const CaseOptions& options = {},
                        std::string* lds = nullptr);

/// Expects that it makes none, if the problem is in the part of this run (support/part.h).
void expect_right(const std::string& chip, const std::string& problem);

}  // namespace regard::test
