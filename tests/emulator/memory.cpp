// Shared memory: plain accesses, asynchronous copies, and tiles moved by the tensor memory accelerator.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <span>

#include "emulator/barrier.h"
#include "emulator/instructions.h"
#include "emulator/tensor_map.h"

namespace emulator {
namespace {

using Instruction = ptx::Instruction;

std::uint32_t address(Execution& e, const ptx::Operand& operand) {
  return static_cast<std::uint32_t>(e.get(operand));
}

/// The words of a vector, or a single word.
std::span<const ptx::Operand> words_of(const ptx::Operand& operand) {
  if (operand.kind == ptx::Operand::Kind::vector) return operand.parts;
  return {&operand, 1};
}

void check_alignment(const Instruction& i, const std::uint8_t* place, std::size_t words) {
  if (reinterpret_cast<std::uintptr_t>(place) % (4 * words) != 0)
    throw std::runtime_error(fmt::format("{} at an address that is no multiple of {}", i.name, 4 * words));
}

void store_words(Execution& e, const Instruction& i, std::uint8_t* to) {
  const std::span<const ptx::Operand> words = words_of(i.operands[1]);
  check_alignment(i, to, words.size());
  for (const ptx::Operand& from : words) {
    const auto word = static_cast<std::uint32_t>(e.get(from));
    std::memcpy(to, &word, sizeof word);
    to += sizeof word;
  }
}
void store_shared(Execution& e, const Instruction& i) {
  store_words(e, i, e.launch().shared(address(e, i.operands[0]), 4 * words_of(i.operands[1]).size()));
}
void store_global(Execution& e, const Instruction& i) {
  store_words(e, i, reinterpret_cast<std::uint8_t*>(e.get(i.operands[0])));
}
void load_shared(Execution& e, const Instruction& i) {
  const std::span<const ptx::Operand> words = words_of(i.operands[0]);
  const std::uint8_t* from = e.launch().shared(address(e, i.operands[1]), 4 * words.size());
  check_alignment(i, from, words.size());
  for (const ptx::Operand& to : words) {
    std::uint32_t word = 0;
    std::memcpy(&word, from, sizeof word);
    e.set(to, word);
    from += sizeof word;
  }
}

/// One word for each number of a vector. Additions are visible at once, in the order in which threads run.
template <class Number>
void add_global(Execution& e, const Instruction& i) {
  auto* to = reinterpret_cast<std::uint8_t*>(e.get(i.operands[0]));
  const std::span<const ptx::Operand> words = words_of(i.operands[1]);
  check_alignment(i, to, words.size());
  for (const ptx::Operand& from : words) {
    Number sum{};
    std::memcpy(&sum, to, sizeof sum);
    sum += std::bit_cast<Number>(static_cast<std::uint32_t>(e.get(from)));
    std::memcpy(to, &sum, sizeof sum);
    to += sizeof sum;
  }
}
/// A thread that polls until another one has written lets that one run.
void load_global_and_wait(Execution& e, const Instruction& i) {
  e.launch().pause();
  std::uint32_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(e.get(i.operands[1])), sizeof word);
  e.set(i.operands[0], word);
}

void load_half(Execution& e, const Instruction& i) {
  std::uint16_t half = 0;
  std::memcpy(&half, e.launch().shared(address(e, i.operands[1]), sizeof half), sizeof half);
  e.set(i.operands[0], half);
}

void end_first_copies(Thread& thread, std::size_t count) {
  for (; count > 0; --count) {
    thread.copies.front()();
    thread.copies.pop_front();
  }
}

/// Copies 16 bytes, of which only as many are read as the last operand says.
void copy(Execution& e, const Instruction& i) {
  std::uint8_t* const to = e.launch().shared(address(e, i.operands[0]), 16);
  const void* const from = reinterpret_cast<const void*>(e.get(i.operands[1]));
  const auto bytes = static_cast<std::int32_t>(e.get(i.operands[3]));
  if (e.get(i.operands[2]) != 16 || bytes < 0 || bytes > 16)
    throw std::runtime_error(fmt::format("cp.async of {} bytes of 16", bytes));
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || e.get(i.operands[1]) % 16 != 0)
    throw std::runtime_error("cp.async of 16 bytes from or to an address that is no multiple of 16");
  e.thread().copies.emplace_back([=] {
    std::memset(to, 0, 16);
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  });
}
void end_copy_group(Execution& e, const Instruction&) {
  Thread& thread = e.thread();
  if (e.launch().coin()) {  // as if it had already finished
    end_first_copies(thread, thread.copies.size());
    for (std::size_t& group : thread.copy_groups) group = 0;
  }
  std::size_t grouped = 0;
  for (const std::size_t group : thread.copy_groups) grouped += group;
  thread.copy_groups.push_back(thread.copies.size() - grouped);
}
void wait_for_copies(Execution& e, const Instruction& i) {
  Thread& thread = e.thread();
  while (thread.copy_groups.size() > e.get(i.operands[0])) {
    end_first_copies(thread, thread.copy_groups.front());
    thread.copy_groups.pop_front();
  }
}

/// Arrives at a barrier when this thread's copies have ended, which is at once here: whatever waits for the
/// barrier sees them.
void arrive_after_copies(Execution& e, const Instruction& i) {
  Thread& thread = e.thread();
  end_first_copies(thread, thread.copies.size());
  thread.copy_groups.clear();
  barrier_at(e.launch(), address(e, i.operands[0])).arrive();
}

/// [map, {coordinates}].
struct Box {
  TensorMap map;
  std::array<std::int32_t, 5> coordinates{};

  Box(Execution& e, const ptx::Operand& operand) {
    std::memcpy(&map, reinterpret_cast<const void*>(e.get(operand.parts[0])), sizeof map);
    const std::vector<ptx::Operand>& parts = operand.parts[1].parts;
    if (parts.size() != map.rank)
      throw std::runtime_error(
          fmt::format("a box of {} dimensions of a tensor map that has {}", parts.size(), map.rank));
    for (std::size_t n = 0; n < parts.size(); ++n)
      coordinates[n] = static_cast<std::int32_t>(e.get(parts[n]));
  }
};

/// [to], box, [barrier], and for a multicast the blocks that receive it.
void load_box(Execution& e, const Instruction& i) {
  Launch& launch = e.launch();
  const Box box(e, i.operands[1]);
  const std::uint32_t to = address(e, i.operands[0]), barrier = address(e, i.operands[2]),
                      bytes = box.map.bytes_of_box();
  const auto blocks =
      i.operands.size() > 3 ? static_cast<std::uint32_t>(e.get(i.operands[3])) : 1u << Launch::rank(to);
  if (to % 128 != 0) throw std::runtime_error("a box to shared memory that is no multiple of 128");
  for (std::uint32_t rank = 0; rank < 32; ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    const std::uint32_t place = launch.of_rank(rank, to);
    launch.shared(place, bytes);
    std::uint8_t* const memory = launch.shared(launch.of_rank(rank, 0), 0);
    Barrier& full = barrier_at(launch, launch.of_rank(rank, barrier));
    const std::uint32_t offset = launch.offset(to);
    const Block& block = *e.thread().block->cluster->blocks[rank];
    launch.begin([=, &full, &block] {
      if (block.running == 0)
        throw std::runtime_error("a block ends before a box has come that is on its way");
      copy_box(box.map, box.coordinates, memory, offset);
      full.complete(bytes);
    });
  }
}

/// Checks both addresses of a copy of bytes, and their number.
std::uint32_t bytes_of_copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  if (to % 16 != 0 || from % 16 != 0 || bytes % 16 != 0 || bytes == 0)
    throw std::runtime_error("a copy of bytes from, to or of what is no multiple of 16");
  return static_cast<std::uint32_t>(bytes);
}

/// [to], [from], bytes, [barrier].
void load_bytes(Execution& e, const Instruction& i) {
  Launch& launch = e.launch();
  const std::uint32_t to = address(e, i.operands[0]);
  const void* const from = reinterpret_cast<const void*>(e.get(i.operands[1]));
  const std::uint32_t bytes = bytes_of_copy(to, e.get(i.operands[1]), e.get(i.operands[2]));
  Barrier& full = barrier_at(launch, address(e, i.operands[3]));
  std::uint8_t* const place = launch.shared(to, bytes);
  const Block& block = *e.thread().block;
  launch.begin([=, &full, &block] {
    if (block.running == 0)
      throw std::runtime_error("a block ends before bytes have come that are on their way");
    std::memcpy(place, from, bytes);
    full.complete(bytes);
  });
}

void add(float* to, float x) {
  std::atomic_ref(*to).fetch_add(x);
}

/// [to], {x, y}.
void add_pair(Execution& e, const Instruction& i) {
  auto* const to = reinterpret_cast<float*>(e.get(i.operands[0]));
  check_alignment(i, reinterpret_cast<const std::uint8_t*>(to), 2);
  for (std::size_t n = 0; n < 2; ++n) add(to + n, e.get_float(i.operands[1].parts[n]));
}

/// [to], [from], bytes: they are read and stored, or fp32 numbers added, at once or at a later moment.
template <bool adds>
void begin_stored_bytes(Execution& e, const Instruction& i) {
  Launch& launch = e.launch();
  auto* const to = reinterpret_cast<float*>(e.get(i.operands[0]));
  const std::uint32_t from = address(e, i.operands[1]),
                      bytes = bytes_of_copy(e.get(i.operands[0]), from, e.get(i.operands[2]));
  const std::uint8_t* const memory = launch.shared(from, bytes);
  const Block& block = *e.thread().block;
  auto stored = std::make_shared<StoredBox>();
  e.thread().boxes.push_back(stored);
  launch.begin([=, &launch, &block] {
    if (block.running == 0) throw std::runtime_error("a block ends before floats were read that leave it");
    auto floats = std::make_shared<std::vector<float>>(bytes / sizeof(float));
    std::memcpy(floats->data(), memory, bytes);
    stored->read = true;
    launch.begin([=] {
      for (std::size_t n = 0; n < floats->size(); ++n) {
        if constexpr (adds)
          add(to + n, (*floats)[n]);
        else
          to[n] = (*floats)[n];
      }
      stored->written = true;
    });
  });
}

/// box, [from]: shared memory may be read at once or at a later moment.
void begin_stored_box(Execution& e, const Instruction& i) {
  Launch& launch = e.launch();
  const Box box(e, i.operands[0]);
  const std::uint32_t from = address(e, i.operands[1]), bytes = box.map.bytes_of_box(),
                      offset = Launch::offset(from);
  if (from % 128 != 0) throw std::runtime_error("a box from shared memory that is no multiple of 128");
  launch.shared(from, bytes);
  const std::uint8_t* const memory = launch.shared(launch.of_rank(Launch::rank(from), 0), 0);
  const Block& block = *e.thread().block;
  auto stored = std::make_shared<StoredBox>();
  e.thread().boxes.push_back(stored);
  launch.begin([=, &launch, &block] {
    if (block.running == 0) throw std::runtime_error("a block ends before a box was read that leaves it");
    // Its contents between reading and writing.
    const auto copy = std::make_shared<std::vector<std::uint8_t>>(memory, memory + offset + bytes);
    stored->read = true;
    launch.begin([=] {
      store_box(box.map, box.coordinates, copy->data(), offset);
      stored->written = true;
    });
  });
}
void end_stored_boxes(Execution& e, const Instruction&) {
  const int group = ++e.thread().box_groups;
  for (const auto& box : e.thread().boxes)
    if (box->group == 0) box->group = group;
}
/// For all groups but the last ones, as many as the operand says.
template <bool StoredBox::* state>
void wait_for_stored_boxes(Execution& e, const Instruction& i) {
  auto& boxes = e.thread().boxes;
  const int last = e.thread().box_groups - static_cast<int>(e.get(i.operands[0]));
  e.launch().wait("boxes that leave shared memory", [&boxes, last] {
    return std::all_of(boxes.begin(), boxes.end(), [last](const auto& box) {
      return box->group == 0 || box->group > last || (*box).*state;
    });
  });
  std::erase_if(boxes, [](const auto& box) { return box->group != 0 && box->written; });
}

/// [to], value, [barrier]: in any block of the cluster.
void send(Execution& e, const Instruction& i) {
  std::uint8_t* const to = e.launch().shared(address(e, i.operands[0]), 4);
  const auto value = static_cast<std::uint32_t>(e.get(i.operands[1]));
  Barrier& barrier = barrier_at(e.launch(), address(e, i.operands[2]));
  const Block& block = *e.thread().block->cluster->blocks[Launch::rank(address(e, i.operands[0]))];
  e.launch().begin([=, &barrier, &block] {
    if (block.running == 0) throw std::runtime_error("a block ends before what is sent to it has come");
    std::memcpy(to, &value, sizeof value);
    barrier.complete(sizeof value);
  });
}

void place_in_block(Execution& e, const Instruction& i) {
  e.set(i.operands[0],
        e.launch().of_rank(static_cast<std::uint32_t>(e.get(i.operands[2])), address(e, i.operands[1])));
}

}  // namespace

std::span<const Named> memory_instructions() {
  static constexpr Named table[] = {
      {"st.shared.v4.b32", store_shared},
      {"st.shared.v2.f32", store_shared},
      {"st.shared.v4.f32", store_shared},
      {"st.shared.b32", store_shared},
      {"st.global.v4.b32", store_global},
      {"st.global.v2.f32", store_global},
      {"red.global.add.f32", add_global<float>},
      {"red.global.add.v2.f32", add_global<float>, 90},
      {"red.global.add.v4.f32", add_global<float>, 90},
      {"red.release.gpu.global.add.u32", add_global<std::uint32_t>},
      {"ld.acquire.gpu.global.u32", load_global_and_wait},
      {"ld.shared.f32", load_shared},
      {"ld.shared.v4.f32", load_shared},
      {"ld.shared.v2.f32", load_shared},
      {"cp.async.cg.shared.global", copy, 80},
      {"cp.async.commit_group", end_copy_group, 80},
      {"cp.async.wait_group", wait_for_copies, 80},
      {"cp.async.mbarrier.arrive.noinc.shared::cta.b64", arrive_after_copies, 90},
      {"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes", load_box, 90},
      {"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
       load_box, 90},
      {"cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes", load_box, 90},
      {"cp.async.bulk.tensor.4d.global.shared::cta.bulk_group", begin_stored_box, 90},
      {"cp.async.bulk.tensor.5d.global.shared::cta.bulk_group", begin_stored_box, 90},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", load_bytes, 90},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", begin_stored_bytes<true>, 90},
      {"cp.async.bulk.global.shared::cta.bulk_group", begin_stored_bytes<false>, 90},
      {"red.global.add.v2.f32", add_pair, 90},
      {"cp.async.bulk.commit_group", end_stored_boxes, 90},
      {"cp.async.bulk.wait_group.read", wait_for_stored_boxes<&StoredBox::read>, 90},
      {"cp.async.bulk.wait_group", wait_for_stored_boxes<&StoredBox::written>, 90},
      {"ld.shared.u16", load_half},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32", send, 90},
      {"mapa.shared::cluster.u32", place_in_block, 90},
  };
  return table;
}

}  // namespace emulator
