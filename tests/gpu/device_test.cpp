// Devices of both makes, through the one interface to them, with a driver that records instead of computing.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "gpu/fake_driver/fake_driver.h"

namespace regard::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Devices 0 and 1 of a make, and what their code looks like.
struct MakeOfGpu {
  const char* kind;
  std::array<const char*, 2> names, chips, targets;
  Elf64_Half machine;
  std::array<Elf64_Word, 2> flags;
};
const MakeOfGpu makes[] = {
    {"cuda", {"Fake Hopper", "Fake Ampere"}, {"sm_90", "sm_80"}, {"sm_90a", "sm_80"}, EM_CUDA, {}},
    {"hip",
     {"Fake Instinct", "Fake Radeon"},
     {"gfx942", "gfx1100"},
     {"gfx942", "gfx1100"},
     EM_AMDGPU,
     {0x54c, 0x41}},
};

class Device : public testing::TestWithParam<MakeOfGpu> {
 protected:
  void SetUp() override {
    fake_use(0);
    driver.capturing = driver.launch_code = driver.fill_code = 0;
    driver.most_bytes = 1ll << 40;
    driver.on_launch = nullptr;
  }
  void TearDown() override { EXPECT_EQ(fake_last_error(), 0); }

  const gpu::Device& device(std::size_t i) const { return (*gpu::devices(backend))[i]; }
  /// A file that says that it is code for a device.
  std::vector<std::byte> code_for(std::size_t i) const {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = GetParam().machine;
    header.e_flags = GetParam().flags[i];
    std::vector<std::byte> bytes(sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
  }

  FakeDriver& driver = *fake_driver();
  const gpu::Backend& backend = *gpu::find_backend(GetParam().kind);
};

TEST_P(Device, IsDescribed) {
  ASSERT_EQ(gpu::devices(backend)->size(), 2U);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(device(i).ordinal, i);
    EXPECT_EQ(device(i).name, GetParam().names[i]);
    EXPECT_EQ(device(i).chip, GetParam().chips[i]);
    EXPECT_EQ(device(i).multiprocessors, driver.multiprocessors[i]);
    EXPECT_GE(device(i).shared_memory, 65536);
    EXPECT_EQ(gpu::kind_of(*device(i).backend), GetParam().kind);
  }
}

TEST_P(Device, RunsItsOwnTarget) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(gpu::runs_on(device(i), GetParam().targets[i]));
    const Status other = gpu::runs_on(device(i), GetParam().targets[1 - i]);
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message,
                AllOf(HasSubstr(GetParam().targets[1 - i]), HasSubstr(GetParam().names[i]),
                      HasSubstr("which is " + std::string(GetParam().chips[i]))));
  }
}

TEST_P(Device, IsInUseForAsLongAsItIsAsked) {
  const auto current = [&] { return (*gpu::current_device(backend))->ordinal; };
  {
    const gpu::Use second(device(1));
    ASSERT_TRUE(second.status());
    EXPECT_EQ(current(), 1);
    {
      const gpu::Use first(device(0)), again(device(0));
      EXPECT_EQ(current(), 0);
    }
    EXPECT_EQ(current(), 1);
  }
  EXPECT_EQ(current(), 0);
}

TEST_P(Device, HasMemory) {
  const gpu::Device& second = device(1);
  void* const memory = *gpu::allocate(second, 1000);
  EXPECT_EQ(*gpu::device_of(backend, static_cast<char*>(memory) + 999, "q"), &second);
  EXPECT_TRUE(gpu::seen_on(second, static_cast<char*>(memory) + 999));
  EXPECT_EQ(gpu::device_holding(memory), &second);
  std::array<char, 1000> from{}, to{};
  from.fill(7);
  EXPECT_TRUE(gpu::copy(second, memory, from.data(), 1000));
  EXPECT_TRUE(gpu::clear(second, memory, 10, nullptr));
  EXPECT_TRUE(gpu::copy(second, to.data(), memory, 1000));
  EXPECT_EQ(to[9], 0);
  EXPECT_EQ(to[10], 7);
  EXPECT_TRUE(gpu::release(second, memory));
  EXPECT_FALSE(gpu::seen_on(second, memory));
  EXPECT_FALSE(gpu::release(second, memory));
}

TEST_P(Device, DoesNotTakeTheHostsMemoryForItsOwn) {
  int host = 0;
  const Result<const gpu::Device*> found = gpu::device_of(backend, &host, "q");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, testing::StartsWith("q lies in the memory of the host"));
  EXPECT_EQ(gpu::device_holding(&host), nullptr);
}

TEST_P(Device, SaysThatItsMemoryIsFull) {
  driver.most_bytes = 10;
  const Result<void*> none = gpu::allocate(device(0), 11);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::no_memory);
  EXPECT_EQ(none.error().message, std::string(GetParam().names[0]) + " has no 11 bytes of memory left");
  const gpu::OrderedMemory ordered(device(0), 11, nullptr);
  ASSERT_FALSE(ordered.status());
  EXPECT_EQ(ordered.status().error().kind, ErrorKind::no_memory);
}

TEST_P(Device, HasMemoryInTheOrderOfAStream) {
  const int held = driver.held;
  {
    const gpu::OrderedMemory ordered(device(1), 100, nullptr);
    ASSERT_TRUE(ordered.status());
    EXPECT_EQ(*gpu::device_of(backend, ordered.data(), "q"), &device(1));
    EXPECT_EQ(driver.held, held + 1);
  }
  EXPECT_EQ(driver.held, held);
}

TEST_P(Device, WaitsForAStream) {
  fake_waits();
  EXPECT_TRUE(gpu::wait(device(0), reinterpret_cast<gpu::Stream>(7)));
  EXPECT_EQ(fake_waits(), "7@" + std::to_string(driver.launches));
}

FakeLaunch seen;
void* seen_parameter = nullptr;

TEST_P(Device, LaunchesAKernelThatItLoadsOnce) {
  const gpu::Kernel kernel(backend, code_for(1), "attend");
  EXPECT_TRUE(gpu::check_binary(backend, code_for(1), "attend"));
  const gpu::Device& second = device(1);
  const gpu::Use use(second);
  const int loads = driver.loads[1];
  const Result<gpu::Function> function = kernel.load(second);
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_EQ(*kernel.load(second), *function);
  EXPECT_EQ(driver.loads[1], loads + 1);
  driver.on_launch = [](const FakeLaunch& launch, void** parameters) {
    seen = launch;
    seen_parameter = parameters[0];
  };
  int argument = 0;
  void* const parameters[] = {&argument};
  auto* const stream = reinterpret_cast<gpu::Stream>(9);
  EXPECT_TRUE(gpu::launch(second, *function, {3, 256, 40000}, stream, parameters));
  EXPECT_EQ(seen.blocks, 3U);
  EXPECT_EQ(seen.threads, 256U);
  EXPECT_EQ(seen.shared_bytes, 40000U);
  EXPECT_EQ(seen.stream, stream);
  EXPECT_EQ(seen_parameter, &argument);
  const int launches = driver.launches;
  EXPECT_TRUE(gpu::launch(second, *function, {0, 256, 0}, stream, parameters));
  EXPECT_FALSE(gpu::launch(second, *function, {1ll << 32, 256, 0}, stream, parameters));
  EXPECT_EQ(driver.launches, launches);
  driver.launch_code = 719;
  const Status failed = gpu::launch(second, *function, {1, 256, 0}, stream, parameters);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("could not launch a kernel: a fake error"));
}

TEST_P(Device, LoadsNothingWhileAGraphIsCaptured) {
  const gpu::Kernel kernel(backend, code_for(0), "attend");
  const gpu::Use use(device(0));
  driver.capturing = 1;
  EXPECT_FALSE(kernel.function(device(0), nullptr));
  EXPECT_EQ(gpu::counter_at_zero(device(0), nullptr), nullptr);
  driver.capturing = 0;
  EXPECT_TRUE(kernel.function(device(0), nullptr));
  driver.capturing = 1;
  EXPECT_TRUE(kernel.function(device(0), nullptr));
}

TEST_P(Device, RefusesBytesThatAreNoCodeForItsMake) {
  std::vector<std::byte> of_host = code_for(0);
  of_host[offsetof(Elf64_Ehdr, e_machine)] = std::byte{EM_X86_64};
  of_host[offsetof(Elf64_Ehdr, e_machine) + 1] = std::byte{0};
  std::vector<std::byte> cut = code_for(0);
  cut[offsetof(Elf64_Ehdr, e_shentsize)] = std::byte{sizeof(Elf64_Shdr)};
  cut[offsetof(Elf64_Ehdr, e_shnum)] = std::byte{1};
  cut[offsetof(Elf64_Ehdr, e_shoff)] = std::byte{8};
  for (const auto& [bytes, why] :
       {std::pair{std::vector<std::byte>(8), "it is too short"},
        std::pair{std::vector<std::byte>(100), "it is not a 64-bit ELF file"},
        std::pair{cut, "it is truncated"}, std::pair{of_host, "it holds no machine code of "}}) {
    const Status refusal = gpu::check_binary(backend, bytes, "attend");
    ASSERT_FALSE(refusal) << why;
    EXPECT_THAT(refusal.error().message,
                HasSubstr(std::string("the binary of kernel 'attend' cannot be loaded: ") + why));
  }
}

INSTANTIATE_TEST_SUITE_P(Makes, Device, testing::ValuesIn(makes),
                         [](const auto& info) { return std::string(info.param.kind); });

}  // namespace
}  // namespace regard::test
