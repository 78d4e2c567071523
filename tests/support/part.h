// The part of many problems that one run of the tests computes: ./dev test takes a different one each day.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

namespace regard::test {

/// 3/16: of all problems the fourth, and each 16th after it.
struct Part {
  std::size_t first, step;
  bool has(std::size_t index) const { return index % step == first; }
};

/// The part in an environment variable; none: all problems.
inline std::optional<Part> part_from(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return {};
  char* end = nullptr;
  const std::size_t first = std::strtoul(text, &end, 10),
                    step = *end == '/' ? std::strtoul(end + 1, &end, 10) : 0;
  if (step == 0 || *end != '\0')
    throw std::runtime_error(std::string(variable) + "=" + text +
                             " is not a part of all problems, such as 3/16");
  return Part{first % step, step};
}

/// Whether the current test computes its next problem. TEST_PART=3/16: the first one, and that part of
/// them, so that no test is ever empty.
inline bool takes_next_problem() {
  static const std::optional<Part> part = part_from("TEST_PART");
  static const testing::TestInfo* test = nullptr;
  static std::size_t next = 0;
  if (const testing::TestInfo* current = testing::UnitTest::GetInstance()->current_test_info();
      current != test) {
    test = current;
    next = 0;
  }
  const std::size_t index = next++;
  return !part || index == 0 || part->has(index);
}

}  // namespace regard::test
