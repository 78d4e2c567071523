// A kernel on the emulated GPU. The threads of a few clusters at a time run in turns on this thread, each
// with its own stack, until all are waiting; asynchronous work, such as loads of tiles and matrix products,
// ends at a random moment before it is waited for. A kernel that relies on an order that it does not wait
// for therefore soon gives wrong results.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulator/position.h"
#include "emulator/products.h"

namespace emulator {

struct Block;
struct Warp;

/// A rendezvous of threads, which arrive one after another.
struct Meeting {
  int arrived = 0;
  bool any = false, result = false;
  std::uint64_t number = 0;  ///< the meetings that have ended

  /// The last of `all` threads ends it.
  void arrive(int all, bool value) {
    any |= value;
    if (++arrived < all) return;
    result = any;
    any = false;
    arrived = 0;
    ++number;
  }
};

/// The progress of a box that is being stored from shared memory.
struct StoredBox {
  int group = 0;  ///< the number of its group, once that has ended, from 1 on
  bool read = false, written = false;
};

struct Thread {
  Position position;
  Block* block = nullptr;
  Warp* warp = nullptr;
  int lane = 0;
  ucontext_t start{};
  bool started = false;
  jmp_buf place{};  ///< where it left off
  bool ended = false;
  /// Empty: it can go on.
  std::function<bool()> ready;
  const char* waits_for = "";
  std::uint64_t cluster_meeting = 0;
  int given_registers = 0;  ///< by setmaxnreg; 0: those of the launch
  /// Copies to shared memory that have been started, and where each group of them ends.
  std::deque<std::function<void()>> copies;
  std::deque<std::size_t> copy_groups;
  std::vector<std::shared_ptr<StoredBox>> boxes;  ///< being stored from shared memory
  int box_groups = 0;                             ///< that have ended
  std::uint64_t products_issued = 0;
  std::deque<std::uint64_t> product_groups;  ///< products issued up to the end of each
};

struct Warp {
  const void* what = nullptr;  ///< the operation for which its lanes meet
  void* data[64] = {};
  Meeting meeting;
  int ended = 0;  ///< lanes
};

struct Cluster {
  Meeting meeting;
  std::vector<Block*> blocks;
};

struct Block {
  std::vector<std::uint8_t> memory;
  Cluster* cluster = nullptr;
  unsigned number = 0;     ///< of the blocks that run together
  std::uint32_t rank = 0;  ///< in its cluster
  int threads = 0, running = 0;
  int spare_registers = 0;  ///< given back by setmaxnreg
  std::array<Meeting, 16> meetings;
  std::vector<Warp> warps;
  std::vector<ProductQueue> products;  ///< by warpgroup
};

/// The parameters of a launch.
struct Grid {
  unsigned blocks, threads, cluster;
  std::size_t shared_bytes;  ///< of a block, all that its kernel may reach
  unsigned warp = 32;        ///< lanes of a warp
};

class Launch {
 public:
  /// `of_running`: where the position of the running thread is written.
  Launch(const Grid&, Position& of_running, std::function<void()> kernel);
  virtual ~Launch() = default;

  /// Runs all blocks; throws std::runtime_error if the kernel breaks a rule or hangs.
  void run();

  // For instructions: the thread that is running.
  Thread& thread() { return *thread_; }
  /// Lets other threads run until `ready`; `what` is for the message of a kernel that hangs.
  void wait(const char* what, std::function<bool()> ready);
  /// Lets other threads run once.
  void pause();
  /// For all lanes of the warp: the last one to arrive performs it with what each lane provided. `what` is
  /// the same for all of them and for nothing else.
  void with_warp(const void* what, void* mine, const std::function<void(void* const* of_lanes)>&);
  /// `bytes` of shared memory at an address, which may be another block's of the cluster.
  std::uint8_t* shared(std::uint32_t address, std::size_t bytes);
  /// The same address in block `rank`, and its offset in that block's memory.
  static std::uint32_t of_rank(std::uint32_t rank, std::uint32_t address) {
    return offset(address) | rank << rank_shift;
  }
  static std::uint32_t rank(std::uint32_t address) { return address >> rank_shift; }
  static std::uint32_t offset(std::uint32_t address) { return address & ((1u << rank_shift) - 1); }
  /// Performs it later, at a random moment. It throws if a block that it is for has ended without waiting
  /// for it.
  void begin(std::function<void()> work) { work_.push_back(std::move(work)); }
  bool coin() { return random_() % 2 == 0; }

 protected:
  const Grid& grid() const { return grid_; }
  /// Waits for all threads of the block; returns whether `value` is true for one of them.
  bool meet_block(const char* what, bool value);
  /// Before these many blocks run together.
  virtual void starting(unsigned /*blocks*/) {}
  /// A thread's end: what must not be left undone.
  virtual void ending(Thread&) {}

 private:
  static constexpr int rank_shift = 24;

  void run_blocks(unsigned first_block, unsigned blocks);
  void start(Thread&, Block&, unsigned block, unsigned number);
  void loop();
  bool resume(Thread&);
  /// Returns to resume(), until it is called for this thread again.
  void leave(Thread&);
  bool end_some_work(bool must);
  std::string waiting() const;
  static void enter(unsigned high, unsigned low);

  Grid grid_;
  Position& position_;
  std::function<void()> kernel_;
  std::deque<Cluster> clusters_;
  std::deque<Block> blocks_;
  std::deque<Thread> threads_;
  std::vector<std::function<void()>> work_;
  Thread* thread_ = nullptr;
  jmp_buf scheduler_{};
  std::string error_;
  std::int64_t rounds_ = 0;
  std::minstd_rand random_;
};

}  // namespace emulator
