#include "kernels/table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "device/cpu.h"
#include "plan/target.h"

namespace regard::test {
namespace {

// A kernel that falls to the generic one would pass its test without having run.
const int strict = setenv("REGARD_STRICT", "1", 1);

std::string last_error() {
  return regard_status_message();
}

}  // namespace

std::vector<std::string> runnable_targets() {
  const auto flags = cpu::cpu_flags();
  std::vector<std::string> names;
  for (const char* name : {"cpu-generic", "cpu-avx2", "cpu-avx512", "cpu-avx512bf16"}) {
    const Result<const Target*> target = find_target(name);
    if (!target) continue;
    bool runs = true;
    for (const std::string& flag : (*target)->cpu_flags)
      runs = runs && std::find(flags.begin(), flags.end(), flag) != flags.end();
    if (runs) names.push_back(name);
  }
  return names;
}

std::string mistakes_of(const Entry& entry) {
  Case problem(entry.text, entry.options);
  if (problem.problem().pass == Pass::bwd) problem.compute_forward_inputs();
  regard_problem* handle = nullptr;
  if (regard_problem_parse(entry.text.c_str(), &handle) != REGARD_OK) return last_error();
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  if (!entry.target.empty()) options.target = entry.target.c_str();
  if (!entry.family.empty()) options.family = entry.family.c_str();
  options.threads = 1;
  const regard_status status = regard_attention(handle, &options, &problem.arguments());
  const std::string error = status == REGARD_OK ? "" : last_error();
  regard_problem_destroy(handle);
  if (status != REGARD_OK) return entry.target + " " + problem.description() + ": " + error;

  const Result<oracle::Outputs> expected = oracle::run(problem.problem(), problem.arguments());
  if (!expected) return problem.description() + ": " + expected.error().message;
  const std::string mistakes = problem.mistakes(*expected);
  return mistakes.empty() ? ""
                          : entry.target + " " + entry.family + " " + problem.description() + "\n" + mistakes;
}

void expect_right(const std::vector<Entry>& entries, const std::vector<std::string>& targets) {
  std::vector<Entry> all;
  for (const std::string& target : targets)
    for (Entry entry : entries) {
      entry.target = target;
      all.push_back(std::move(entry));
    }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> mistakes;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < all.size();)
      if (std::string found = mistakes_of(all[i]); !found.empty()) {
        const std::lock_guard lock(mutex);
        mistakes.push_back(std::move(found));
      }
  };
  std::thread other(work);
  work();
  other.join();
  for (const std::string& found : mistakes) ADD_FAILURE() << found;
}

void expect_right(const std::vector<Entry>& entries) {
  expect_right(entries, {runnable_targets().back()});
}

}  // namespace regard::test
