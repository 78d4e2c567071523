#undef _FORTIFY_SOURCE  // its longjmp refuses to jump to another stack
#include "emulator/launch.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "emulator/instructions.h"

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

Launch::Launch(const Grid& grid, Runtime*& of_kernel, std::function<void()> kernel)
    : grid_(grid), kernel_(std::move(kernel)) {
  of_kernel = this;
  if (grid.threads == 0 || grid.threads % 32 != 0 || grid.threads > 1024)
    throw std::runtime_error(fmt::format("{} threads are no whole warps of at most 32", grid.threads));
  const char* const seed = std::getenv("EMULATOR_SEED");
  random_.seed(seed == nullptr ? 1 : static_cast<unsigned>(std::atoi(seed)));
  const unsigned at_once = std::max(blocks_at_once / grid.cluster, 1u) * grid.cluster;
  for (unsigned block = 0; block < grid.blocks; block += at_once)
    run(block, std::min(at_once, grid.blocks - block));
}

void Launch::run(unsigned first_block, unsigned blocks) {
  clusters_.assign(blocks / grid_.cluster, {});
  blocks_ = std::deque<Block>(blocks);
  threads_ = std::deque<Thread>(std::size_t{blocks} * grid_.threads);
  for (unsigned i = 0; i < blocks; ++i) {
    Block& block = blocks_[i];
    block.memory.assign(dynamic_start(largest_alignment) + grid_.shared_bytes,
                        0xff);  // NaN for anything that reads them
    block.cluster = &clusters_[i / grid_.cluster];
    block.number = i;
    block.rank = i % grid_.cluster;
    block.cluster->blocks.push_back(&block);
    block.threads = block.running = static_cast<int>(grid_.threads);
    block.warps.resize(grid_.threads / 32);
    block.products.resize((grid_.threads + ProductQueue::threads - 1) / ProductQueue::threads);
    for (unsigned t = 0; t < grid_.threads; ++t)
      start(threads_[i * grid_.threads + t], block, first_block + i, t);
  }
  rounds_ = 0;
  loop();
}

void Launch::start(Thread& thread, Block& block, unsigned number_of_block, unsigned number) {
  thread.position = {{number, 0, 0}, {number_of_block, 0, 0}, {grid_.threads, 1, 1}, {grid_.blocks, 1, 1}};
  thread.block = &block;
  thread.warp = &block.warps[number / 32];
  thread.lane = static_cast<int>(number % 32);
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
  } catch (const std::exception& error) {
    if (launch.error_.empty())
      launch.error_ = fmt::format("block {}, thread {}: {}", launch.position.block.x,
                                  launch.position.thread.x, error.what());
  }
  launch.thread_->ended = true;
  --launch.thread_->block->running;
  _longjmp(launch.scheduler_, 1);
}

/// Runs all threads that can go on in turns, warp after warp from a random one on, leaving some out; the
/// lanes of a warp run from the first or from the last. For some rounds one block falls behind.
void Launch::loop() {
  constexpr std::int64_t most_rounds = 1 << 20;
  constexpr int most_idle_rounds = 200;  // it is unlikely that all warps are left out in each of them
  constexpr int slow_rounds = 64;
  const std::size_t warps = threads_.size() / 32, of_block = grid_.threads / 32;
  std::size_t slow = 0;  // which block; an index past the last: none
  for (int idle = 0; error_.empty() && !std::ranges::all_of(threads_, &Thread::ended); ++idle) {
    const std::size_t first = random_() % warps;
    if (rounds_ % slow_rounds == 0) slow = random_() % (2 * blocks_.size());
    for (std::size_t i = 0; i < warps; ++i) {
      const std::size_t warp = (first + i) % warps;
      if (random_() % 4 == 0 || (warp / of_block == slow && random_() % 8 != 0)) continue;
      const std::size_t turn = coin() ? 31 : 0;
      for (std::size_t lane = 0; lane < 32 && error_.empty(); ++lane)
        if (resume(threads_[32 * warp + (lane ^ turn)])) idle = 0;
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
  position = thread.position;
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
      ++counts[fmt::format("of warp {} at {}", thread.position.thread.x / 32, thread.waits_for)];
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
  if (warp.meeting.arrived == 0) warp.what = what;
  if (warp.what != what)
    throw std::runtime_error("the lanes of a warp are at different instructions that all take part in");
  warp.data[thread_->lane] = mine;
  const std::uint64_t number = warp.meeting.number;
  if (warp.meeting.arrived == 31) action(warp.data);
  warp.meeting.arrive(32, false);
  wait("an instruction of the whole warp", [&warp, number] { return warp.meeting.number != number; });
}

void Launch::execute(Site& site, const Operand* operands, int count) {
  if (site.program == nullptr) {
    std::string text;
    for (const char* c = site.text; *c != 0; ++c) {
      // "%%" is a "%", and "%12" may be text itself.
      if (*c == '%' && c[1] == '%') {
        text += *c++;
        continue;
      }
      char* end = nullptr;
      const long number = *c == '%' && std::isdigit(static_cast<unsigned char>(c[1])) != 0
                              ? std::strtol(c + 1, &end, 10)
                              : -1;
      if (number >= count)
        throw std::runtime_error(fmt::format("'{}' has no operand %{}", site.text, number));
      if (number >= 0 && operands[number].text != nullptr) {
        text += operands[number].text;
        c = end - 1;
      } else {
        text += *c;
      }
    }
    site.program = new ptx::Program(ptx::parse(text, grid_.capability));
  }
  Execution(*this, operands).run(*static_cast<const ptx::Program*>(site.program));
}

std::uint32_t Launch::together(Collective what, std::uint32_t value, std::uint32_t argument) {
  struct Lane {
    std::uint32_t value, argument, result;
  } mine{value, argument, 0};
  static constexpr char kinds[8] = {};
  with_warp(&kinds[static_cast<int>(what)], &mine, [what](void* const* of_lanes) {
    const auto lane = [of_lanes](std::size_t i) -> Lane& { return *static_cast<Lane*>(of_lanes[i]); };
    std::uint32_t ballot = 0, sum = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      ballot |= std::uint32_t{lane(i).value != 0} << i;
      sum += lane(i).value;
    }
    for (std::size_t i = 0; i < 32; ++i) {
      Lane& l = lane(i);
      switch (what) {
        case Collective::shuffle:
          l.result = lane(l.argument % 32).value;
          break;
        case Collective::shuffle_xor:
          l.result = lane((i ^ l.argument) % 32).value;
          break;
        case Collective::shuffle_up:
          l.result = lane(i < l.argument ? i : i - l.argument).value;
          break;
        case Collective::any:
          l.result = ballot != 0;
          break;
        case Collective::ballot:
          l.result = ballot;
          break;
        case Collective::sum:
          l.result = sum;
          break;
        case Collective::nothing:
          break;
      }
    }
  });
  return mine.result;
}

bool Launch::sync_block(bool value) {
  Block& block = *thread_->block;
  Meeting& meeting = block.meetings[0];
  const std::uint64_t number = meeting.number;
  meeting.arrive(block.threads, value);
  wait("__syncthreads", [&meeting, number] { return meeting.number != number; });
  return meeting.result;
}

void* Launch::fixed_memory(int number) {
  return thread_->block->memory.data() + static_cast<std::size_t>(number) * fixed_memory_bytes;
}
void* Launch::dynamic_memory(std::uint32_t alignment) {
  const std::uint32_t start = dynamic_start(std::max(alignment, 16u));
  std::vector<std::uint8_t>& memory = thread_->block->memory;
  memory.resize(start + grid_.shared_bytes);
  return memory.data() + start;
}
std::uint32_t Launch::shared_address(const void* pointer) {
  const Block& block = *thread_->block;
  const auto at = static_cast<const std::uint8_t*>(pointer) - block.memory.data();
  if (at < 0 || at > std::ssize(block.memory))
    throw std::runtime_error("a pointer is not to the block's shared memory");
  return static_cast<std::uint32_t>(at) | block.rank << rank_shift;
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
