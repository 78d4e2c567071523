// What the oracle says of a case that it must not refuse.
#pragma once

#include <gtest/gtest.h>

#include "oracle/oracle.h"
#include "support/case.h"

namespace regard::test {

inline oracle::Outputs run(const Case& c, const oracle::Options& options = {}) {
  auto outputs = oracle::run(c.problem(), c.arguments(), options);
  EXPECT_TRUE(outputs) << c.description() << ": " << outputs.error().message;
  return outputs ? *outputs : oracle::Outputs{};
}

}  // namespace regard::test
