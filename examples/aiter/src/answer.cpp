#include "answer.h"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "mha_api.h"
#include "plans.h"
#include "refusal.h"

namespace aiter {
namespace {

thread_local std::string reason;

void say(const std::string& sentence) {
  static std::mutex mutex;
  static std::set<std::string> said;
  reason = sentence;
  const std::lock_guard lock(mutex);
  if (said.insert(sentence).second) std::fprintf(stderr, "[aiter on regard] %s\n", sentence.c_str());
}

void run(Work& work) {
  for (calls::Call& call : work.calls) call.run();
}

void wait(const Work& work) {
  if (!work.calls.empty()) work.calls.back().wait();
}

float timed(const ck_tile::stream_config& config, Work& work) {
  if (config.nrepeat_ < 1 || config.cold_niters_ < 0 || config.flush_cache_ || config.rotating_count_ > 1) {
    calls::refuse(
        TE_REGARD_REFUSED,
        "stream_config asks for a time that is not measured here; give nrepeat_ of at least 1 without "
        "flush_cache_ and rotating_count_");
  }
  for (int i = 0; i < config.cold_niters_; ++i) run(work);
  wait(work);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < config.nrepeat_; ++i) run(work);
  wait(work);
  const std::chrono::duration<float, std::milli> all = std::chrono::steady_clock::now() - begin;
  return all.count() / static_cast<float>(config.nrepeat_);
}

}  // namespace

float answer(const ck_tile::stream_config& config, const std::function<Work()>& prepare) {
  try {
    Work work = prepare();
    float milliseconds = 0;
    if (config.time_kernel_) {
      milliseconds = timed(config, work);
    } else {
      run(work);
    }
    work.afterwards();
    return milliseconds;
  } catch (const std::exception& error) {
    say(error.what());
  }
  return -1;
}

const char* why_refused() {
  return reason.c_str();
}

void use_target(const char* target) {
  calls::use_target(target);
}

}  // namespace aiter
