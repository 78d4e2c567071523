#undef _FORTIFY_SOURCE  // its longjmp refuses to jump to another stack
#include "emulator/launch.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>

namespace emulator {
namespace {

constexpr unsigned blocks_at_once = 4;
constexpr std::size_t stack_bytes = std::size_t{1} << 20, guard_bytes = std::size_t{1} << 16;

/// Stacks for the threads of launches, which run one after another; unused parts take no memory.
std::uint8_t* stack(std::size_t number) {
  static std::vector<void*> stacks;
  while (stacks.size() <= number) {
    void* const memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard_bytes, PROT_NONE) != 0)
      throw std::runtime_error("no memory for a stack");
    stacks.push_back(memory);
  }
  return static_cast<std::uint8_t*>(stacks[number]);
}

}  // namespace

Launch::Launch(const Grid& grid, Position& of_running, std::function<void()> kernel)
    : grid_(grid), position_(of_running), kernel_(std::move(kernel)) {
  if (grid.threads == 0 || grid.threads % grid.warp != 0 || grid.threads > 1024)
    throw std::runtime_error(
        fmt::format("{} threads are no whole warps of {}, at most 1024", grid.threads, grid.warp));
  const char* const seed = std::getenv("EMULATOR_SEED");
  random_.seed(seed == nullptr ? 1 : static_cast<unsigned>(std::atoi(seed)));
}

void Launch::run() {
  const unsigned at_once = std::max(blocks_at_once / grid_.cluster, 1u) * grid_.cluster;
  for (unsigned block = 0; block < grid_.blocks; block += at_once)
    run_blocks(block, std::min(at_once, grid_.blocks - block));
}

void Launch::run_blocks(unsigned first_block, unsigned blocks) {
  clusters_.assign(blocks / grid_.cluster, {});
  blocks_ = std::deque<Block>(blocks);
  threads_ = std::deque<Thread>(std::size_t{blocks} * grid_.threads);
  for (unsigned i = 0; i < blocks; ++i) {
    Block& block = blocks_[i];
    block.memory.assign(grid_.shared_bytes, 0xff);  // NaN for anything that reads them
    block.cluster = &clusters_[i / grid_.cluster];
    block.number = i;
    block.rank = i % grid_.cluster;
    block.cluster->blocks.push_back(&block);
    block.threads = block.running = static_cast<int>(grid_.threads);
    block.warps.resize(grid_.threads / grid_.warp);
    block.products.resize((grid_.threads + ProductQueue::threads - 1) / ProductQueue::threads);
    for (unsigned t = 0; t < grid_.threads; ++t)
      start(threads_[i * grid_.threads + t], block, first_block + i, t);
  }
  starting(blocks);
  rounds_ = 0;
  loop();
}

void Launch::start(Thread& thread, Block& block, unsigned number_of_block, unsigned number) {
  thread.position = {{number, 0, 0}, {number_of_block, 0, 0}, {grid_.threads, 1, 1}, {grid_.blocks, 1, 1}};
  thread.block = &block;
  thread.warp = &block.warps[number / grid_.warp];
  thread.lane = static_cast<int>(number % grid_.warp);
  getcontext(&thread.start);
  thread.start.uc_stack.ss_sp = stack(std::size_t{block.number} * grid_.threads + number);
  thread.start.uc_stack.ss_size = stack_bytes;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&thread.start, reinterpret_cast<void (*)()>(&Launch::enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void Launch::enter(unsigned high, unsigned low) {
  Launch& launch = *reinterpret_cast<Launch*>(std::uintptr_t{high} << 32 | low);
  try {
    launch.kernel_();
    launch.ending(*launch.thread_);
    if (launch.thread_->warp->meeting.arrived > 0)
      throw std::runtime_error("it ends while lanes of its warp are at an instruction that all take part in");
  } catch (const std::exception& error) {
    if (launch.error_.empty())
      launch.error_ = fmt::format("block {}, thread {}: {}", launch.position_.block.x,
                                  launch.position_.thread.x, error.what());
  }
  launch.thread_->ended = true;
  ++launch.thread_->warp->ended;
  --launch.thread_->block->running;
  _longjmp(launch.scheduler_, 1);
}

/// Runs all threads that can go on in turns, warp after warp from a random one on, leaving some out; the
/// lanes of a warp run from the first or from the last. For some rounds one block falls behind.
void Launch::loop() {
  constexpr std::int64_t most_rounds = 1 << 20;
  constexpr int most_idle_rounds = 200;  // it is unlikely that all warps are left out in each of them
  constexpr int slow_rounds = 64;
  const std::size_t lanes = grid_.warp, warps = threads_.size() / lanes, of_block = grid_.threads / lanes;
  std::size_t slow = 0;  // which block; an index past the last: none
  for (int idle = 0; error_.empty() && !std::ranges::all_of(threads_, &Thread::ended); ++idle) {
    const std::size_t first = random_() % warps;
    if (rounds_ % slow_rounds == 0) slow = random_() % (2 * blocks_.size());
    for (std::size_t i = 0; i < warps; ++i) {
      const std::size_t warp = (first + i) % warps;
      if (random_() % 4 == 0 || (warp / of_block == slow && random_() % 8 != 0)) continue;
      const std::size_t turn = coin() ? lanes - 1 : 0;
      for (std::size_t lane = 0; lane < lanes && error_.empty(); ++lane)
        if (resume(threads_[lanes * warp + (lane ^ turn)])) idle = 0;
    }
    if (end_some_work(idle > 0)) idle = 0;
    if (++rounds_ == most_rounds && error_.empty()) error_ = "the kernel does not end: " + waiting();
    if (idle == most_idle_rounds && error_.empty()) error_ = "the kernel hangs: " + waiting();
  }
  while (error_.empty() && end_some_work(true)) {
  }
  work_.clear();
  if (!error_.empty()) throw std::runtime_error(error_);
}

/// Runs a thread until it waits; returns whether it could go on.
bool Launch::resume(Thread& thread) {
  if (thread.ended || (thread.ready && !thread.ready())) return false;
  thread.ready = nullptr;
  thread_ = &thread;
  position_ = thread.position;
  // Not swapcontext, which makes a system call for the signal mask each time.
  if (_setjmp(scheduler_) != 0) return true;
  if (thread.started) _longjmp(thread.place, 1);
  thread.started = true;
  setcontext(&thread.start);
  throw std::runtime_error("no thread could be started");
}

void Launch::leave(Thread& thread) {
  if (_setjmp(thread.place) == 0) _longjmp(scheduler_, 1);
}

bool Launch::end_some_work(bool must) {
  bool ended = false;
  while (!work_.empty() && (must || coin())) {
    const std::size_t which = random_() % work_.size();
    std::swap(work_[which], work_.back());
    const std::function<void()> work = std::move(work_.back());
    work_.pop_back();
    try {
      work();
    } catch (const std::exception& error) {
      error_ = error.what();
    }
    ended = true;
    must = false;
  }
  return ended;
}

std::string Launch::waiting() const {
  std::map<std::string, int> counts;
  for (const Thread& thread : threads_)
    if (!thread.ended)
      ++counts[fmt::format("of warp {} at {}", thread.position.thread.x / grid_.warp, thread.waits_for)];
  std::string all;
  for (const auto& [what, count] : counts)
    all += fmt::format("{}{} threads {}", all.empty() ? "" : ", ", count, what);
  return all;
}

void Launch::wait(const char* what, std::function<bool()> ready) {
  if (ready()) return;
  Thread& thread = *thread_;
  thread.waits_for = what;
  thread.ready = std::move(ready);
  leave(thread);
}

void Launch::pause() {
  thread_->waits_for = "its next turn";
  leave(*thread_);
}

void Launch::with_warp(const void* what, void* mine, const std::function<void(void* const*)>& action) {
  Warp& warp = *thread_->warp;
  if (warp.ended > 0)
    throw std::runtime_error("lanes of a warp have ended before an instruction that all take part in");
  if (warp.meeting.arrived == 0) warp.what = what;
  if (warp.what != what)
    throw std::runtime_error("the lanes of a warp are at different instructions that all take part in");
  warp.data[thread_->lane] = mine;
  const std::uint64_t number = warp.meeting.number;
  const int lanes = static_cast<int>(grid_.warp);
  if (warp.meeting.arrived == lanes - 1) action(warp.data);
  warp.meeting.arrive(lanes, false);
  wait("an instruction of the whole warp", [&warp, number] { return warp.meeting.number != number; });
}

bool Launch::meet_block(const char* what, bool value) {
  Block& block = *thread_->block;
  Meeting& meeting = block.meetings[0];
  const std::uint64_t number = meeting.number;
  meeting.arrive(block.threads, value);
  wait(what, [&meeting, number] { return meeting.number != number; });
  return meeting.result;
}

std::uint8_t* Launch::shared(std::uint32_t address, std::size_t bytes) {
  const std::size_t rank = Launch::rank(address), at = offset(address);
  const std::vector<Block*>& blocks = thread_->block->cluster->blocks;
  if (rank >= blocks.size() || at + bytes > blocks[rank]->memory.size())
    throw std::runtime_error(fmt::format("{} bytes at {} are outside of shared memory", bytes, at));
  if (blocks[rank]->running == 0) throw std::runtime_error("shared memory of a block that has ended");
  return blocks[rank]->memory.data() + at;
}

}  // namespace emulator
