#include "cli/held_signals.h"

#include <atomic>
#include <csignal>

namespace regard::cli {
namespace {

constexpr std::array<int, 4> ending = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

std::atomic<int> noted{0};
int objects = 0;

void note(int signal) {
  noted = signal;
}

}  // namespace

HeldSignals::HeldSignals() {
  if (objects++ > 0) return;
  noted = 0;
  struct sigaction action{}, before{};
  action.sa_handler = note;  // without SA_RESTART: a blocked write returns
  for (std::size_t i = 0; i < ending.size(); ++i) {
    sigaction(ending[i], nullptr, &before);
    held_[i] = before.sa_handler == SIG_DFL &&
               sigaction(ending[i], &action, nullptr) == 0;  // not if ignored (nohup)
  }
}

HeldSignals::~HeldSignals() {
  if (--objects > 0) return;
  for (std::size_t i = 0; i < ending.size(); ++i) {
    if (held_[i]) std::signal(ending[i], SIG_DFL);
  }
  if (const int signal = noted.exchange(0)) std::raise(signal);
}

bool HeldSignals::arrived() {
  return noted != 0;
}

}  // namespace regard::cli
