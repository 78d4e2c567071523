#include "kernels/support.h"

#include <gtest/gtest.h>

#include "engine/machine.h"

namespace regard::test {

std::vector<std::string> runnable_targets() {
  std::vector<const Target*> found;
  for (const Target& target : targets().value()) {
    if (runnable(target) && !target.has("amx_emulated")) found.push_back(&target);
  }
  std::vector<std::string> names;
  for (const Target* target : found) names.push_back(target->name);
  return names;
}

std::string run(Case& c, const Path& path) {
  regard_problem* problem = nullptr;
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = path.target.empty() ? nullptr : path.target.c_str();
  options.family = path.family.empty() ? nullptr : path.family.c_str();
  options.threads = path.threads;
  regard_status status = regard_problem_parse(print(c.problem()).c_str(), &problem);
  if (status == REGARD_OK) status = regard_attention(problem, &options, &c.arguments());
  regard_problem_destroy(problem);
  return status == REGARD_OK ? "" : regard_status_message();
}

void expect_right(const std::string& text, const Path& path, const CaseOptions& options) {
  Case c(text, options);
  const std::string refusal = run(c, path);
  if (!refusal.empty()) {
    ADD_FAILURE() << c.description() << " on " << path.target << " " << path.family << ": " << refusal;
    return;
  }
  const Problem& p = c.problem();
  const std::int64_t keys = p.b * p.hq * p.sk, most = std::int64_t{1} << 26;
  oracle::Options sample{2, 0, 0};
  if (p.pass == Pass::fwd && keys * p.sq > most) sample.max_rows = std::max<std::int64_t>(most / keys, 8);
  const auto expected = oracle::run(p, c.arguments(), sample);
  ASSERT_TRUE(expected) << expected.error().message;
  const std::string mistakes = c.mistakes(*expected, sample.max_rows > 0);
  if (!mistakes.empty())
    ADD_FAILURE() << c.description() << " on " << path.target << " " << path.family << ":\n" << mistakes;
}

void expect_all_right(const std::vector<std::string>& texts, const Path& path, const CaseOptions& options) {
  for (const std::string& text : texts) expect_right(text, path, options);
}

void expect_same_bits(const std::string& text, const Path& first, const Path& second) {
  Case c(text);
  ASSERT_EQ(run(c, first), "") << c.description();
  std::vector<std::vector<std::uint8_t>> bytes;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (tensor_spec(c.problem(), role).use == REGARD_OUTPUT) bytes.push_back(c.bytes(role));
  }
  c.poison_outputs();
  ASSERT_EQ(run(c, second), "") << c.description();
  std::size_t n = 0;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (tensor_spec(c.problem(), role).use != REGARD_OUTPUT) continue;
    EXPECT_TRUE(c.bytes(role) == bytes[n++]) << c.description() << ": " << role_name(role);
  }
}

}  // namespace regard::test
