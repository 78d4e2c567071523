// Threads that wait for each other: barriers in memory, numbered ones of a block, that of a cluster, and for
// registers; and instructions that need no emulation, as everything is visible at once.
#include <algorithm>

#include "emulator/barrier.h"
#include "emulator/instructions.h"

namespace emulator {

Barrier& barrier_at(Launch& launch, std::uint32_t address) {
  if (address % sizeof(Barrier) != 0)
    throw std::runtime_error("an mbarrier at an address that is no multiple of 8");
  return *reinterpret_cast<Barrier*>(launch.shared(address, sizeof(Barrier)));
}

namespace {

using Instruction = ptx::Instruction;

Barrier& barrier(Execution& e, const ptx::Operand& operand) {
  return barrier_at(e.launch(), static_cast<std::uint32_t>(e.get(operand)));
}

void init(Execution& e, const Instruction& i) {
  barrier(e, i.operands[0]).init(static_cast<std::uint32_t>(e.get(i.operands[1])));
}
void arrive(Execution& e, const Instruction& i) {
  barrier(e, i.operands[1]).arrive();
}
void arrive_and_expect(Execution& e, const Instruction& i) {
  Barrier& b = barrier(e, i.operands[1]);
  b.expect(static_cast<std::uint32_t>(e.get(i.operands[2])));
  b.arrive();
}
void wait(Execution& e, const Instruction& i) {
  const Barrier& b = barrier(e, i.operands[1]);
  const auto parity = static_cast<std::uint32_t>(e.get(i.operands[2]));
  if (b.phase == parity && e.launch().coin())
    e.launch().pause();  // afterwards it may report that the phase has not ended
  else
    e.launch().wait("mbarrier.try_wait", [&b, parity] { return b.phase != parity; });
  e.set(i.operands[0], b.phase != parity);
}

/// The barrier of the block whose number is the first operand.
Meeting& meeting_of(Execution& e, const Instruction& i) {
  return e.thread().block->meetings.at(e.get(i.operands[0]));
}
void arrive_at_number(Execution& e, const Instruction& i) {
  meeting_of(e, i).arrive(static_cast<int>(e.get(i.operands[1])), false);
}
void meet_at_number(Execution& e, const Instruction& i) {
  Meeting& meeting = meeting_of(e, i);
  const std::uint64_t number = meeting.number;
  arrive_at_number(e, i);
  e.launch().wait("bar.sync", [&meeting, number] { return meeting.number != number; });
}

void arrive_in_cluster(Execution& e, const Instruction&) {
  Cluster& cluster = *e.thread().block->cluster;
  e.thread().cluster_meeting = cluster.meeting.number;
  cluster.meeting.arrive(static_cast<int>(cluster.blocks.size()) * e.thread().block->threads, false);
}
void wait_for_cluster(Execution& e, const Instruction&) {
  const Meeting& meeting = e.thread().block->cluster->meeting;
  const std::uint64_t number = e.thread().cluster_meeting;
  e.launch().wait("barrier.cluster.wait", [&meeting, number] { return meeting.number != number; });
}

/// setmaxnreg: a thread gives registers back, or waits until its block has as many to give.
void change_registers(Execution& e, const Instruction& i) {
  constexpr int of_multiprocessor = 65536, most = 255, multiple = 8;
  Thread& thread = e.thread();
  Block& block = *thread.block;
  if (thread.given_registers == 0)
    thread.given_registers = std::min(of_multiprocessor / block.threads / multiple * multiple, most);
  const int more = static_cast<int>(e.get(i.operands[0])) - thread.given_registers;
  e.launch().wait("setmaxnreg.inc", [&block, more] { return block.spare_registers >= more; });
  block.spare_registers -= more;
  thread.given_registers += more;
}

void nothing(Execution&, const Instruction&) {}

}  // namespace

std::span<const Named> meeting_instructions() {
  static constexpr Named table[] = {
      {"mbarrier.init.shared::cta.b64", init, 90},
      {"mbarrier.arrive.shared::cta.b64", arrive, 90},
      {"mbarrier.arrive.shared::cluster.b64", arrive, 90},
      {"mbarrier.arrive.expect_tx.shared::cta.b64", arrive_and_expect, 90},
      {"mbarrier.try_wait.parity.shared::cta.b64", wait, 90},
      {"bar.arrive", arrive_at_number},
      {"bar.sync", meet_at_number},
      {"barrier.cluster.arrive.release", arrive_in_cluster, 90},
      {"barrier.cluster.wait.acquire", wait_for_cluster, 90},
      {"fence.mbarrier_init.release.cluster", nothing, 90},
      {"fence.proxy.async.shared::cta", nothing, 90},
      {"fence.proxy.async.global", nothing, 90},
      {"griddepcontrol.launch_dependents", nothing, 90},
      {"griddepcontrol.wait", nothing, 90},
      {"prefetch.tensormap", nothing, 90},
      {"setmaxnreg.inc.sync.aligned.u32", change_registers, 90, 90},
      {"setmaxnreg.dec.sync.aligned.u32", change_registers, 90, 90},
      {"wgmma.fence.sync.aligned", nothing, 90, 90},
  };
  return table;
}

}  // namespace emulator
