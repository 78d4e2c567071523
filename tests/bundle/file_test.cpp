// Bundles as files: which parts are read, what can happen to the file meanwhile, and how it is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "forged.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class BundleFiles : public BundleTest {
 protected:
  std::string refusal(const std::string& path) const {
    const auto bundle = Bundle::open(path);
    return bundle ? "" : bundle.error().message;
  }
  /// The error when a bundle of one kernel cannot be written to that path; empty if it can.
  static std::string not_written(const std::string& path) {
    const Status written = write_bundle(path, about(), {input_number(1)});
    return written ? "" : written.error().message;
  }
};

/// The bytes that this thread has read, as counted by the kernel; negative if it does not count them.
long bytes_read() {
  std::ifstream file("/proc/thread-self/io");
  std::string word;
  long count = -1;
  return file >> word >> count ? count : -1;
}

TEST_F(BundleFiles, OpeningReadsOnlyTheIndex) {
  std::vector<BundleInput> inputs;
  for (int number = 0; number < 1000; ++number) inputs.push_back(input_number(number));
  const std::string path = write("a", std::move(inputs));
  const long first = bytes_read(), second = bytes_read();
  if (first < 0) GTEST_SKIP() << "this system does not count the bytes that a thread reads";
  const auto start = std::chrono::steady_clock::now();
  const auto bundle = open(path);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  const long read = bytes_read() - second - (second - first);
  EXPECT_EQ(bundle->kernels().size(), 1000u);
  EXPECT_EQ(read, static_cast<long>(64 + bundle->index().size()));
  RecordProperty("milliseconds", std::to_string(time.count()));
  EXPECT_TRUE(bundle->read(bundle->named("cpu-any kernel_500")[0]));
}

TEST_F(BundleFiles, WhatIsNoFileIsRefused) {
  EXPECT_THAT(refusal(in_folder("none")), HasSubstr("it cannot be opened: No such file or directory"));
  EXPECT_EQ(refusal(folder()), "it is not a file");
  EXPECT_EQ(refusal("/dev/zero"), "it is not a file");
  ASSERT_EQ(mkfifo(in_folder("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(in_folder("pipe")), "it is not a file");
}

TEST_F(BundleFiles, ALinkIsFollowed) {
  fs::create_symlink(write_kernels("a", {1}), in_folder("b"));
  EXPECT_EQ(refusal(in_folder("b")), "");
}

TEST_F(BundleFiles, OneThatIsReplacedIsReadAsLongAsTheKernelIsThere) {
  const std::string path = write_kernels("a", {1});
  const auto bundle = open(path);
  write_kernels("a", {1, 2});
  const Result<CacheEntry> entry = bundle->read(bundle->kernels()[0]);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->payload, input_number(1).entry.payload);
  write_kernels("a", {2});
  EXPECT_EQ(bundle->read(bundle->kernels()[0]).error().message,
            "its file was changed after it was opened, and has its kernel 'cpu-any kernel_1' no more");
  fs::remove(path);
  EXPECT_THAT(bundle->read(bundle->kernels()[0]).error().message,
              HasSubstr("it cannot be opened: No such file"));
}

TEST_F(BundleFiles, OneThatIsOpenHasNoDescriptorAndIsFoundFromAnotherFolder) {
  write_kernels("a", {1});
  const fs::path before = fs::current_path();
  fs::current_path(folder());
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto without = descriptors();
  const auto bundle = open("a");
  EXPECT_EQ(descriptors(), without);
  fs::current_path(before);
  EXPECT_TRUE(bundle->read(bundle->kernels()[0]));
}

TEST_F(BundleFiles, OneThatIsChangedInPlaceIsRefusedFromThenOn) {
  const std::string path = write_kernels("a", {1});
  const auto bundle = open(path);
  const BundleKernel& kernel = bundle->kernels()[0];
  const std::string bytes = read_bytes(write_kernels("b", {2}));
  std::ofstream(path, std::ios::binary) << bytes;
  const char* const changed =
      "its file was changed after it was opened, and has its kernel 'cpu-any kernel_1' no more";
  EXPECT_EQ(bundle->read(kernel).error().message, changed);
  fs::resize_file(path, 70);
  EXPECT_EQ(bundle->read(kernel).error().message, changed);
}

TEST_F(BundleFiles, ThreadsReadAtOnce) {
  const auto bundle = open(write_kernels("a", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int number = 0; number < 10; ++number) {
        const Result<CacheEntry> entry = bundle->read(bundle->kernels()[static_cast<std::size_t>(number)]);
        right += entry && entry->payload == input_number(number).entry.payload ? 1 : 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
}

TEST_F(BundleFiles, AFullDiskLeavesWhatWasThere) {
  const std::string path = write_kernels("a", {1}), before = read_bytes(path);
  rlimit unlimited;
  getrlimit(RLIMIT_FSIZE, &unlimited);
  for (const rlim_t most : {0, 10, 64, 100, 600}) {
    rlimit limit = unlimited;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status written = write_bundle(path, about(), {input_number(2), input_number(3)});
    setrlimit(RLIMIT_FSIZE, &unlimited);
    ASSERT_FALSE(written) << most;
    EXPECT_EQ(written.error().kind, ErrorKind::no_memory);
    EXPECT_THAT(written.error().message, testing::EndsWith("/a: File too large"));
    EXPECT_EQ(read_bytes(path), before);
    EXPECT_EQ(files(), (std::vector<std::string>{"a"}));
  }
}

TEST_F(BundleFiles, APlaceThatTakesNoneIsReported) {
  EXPECT_EQ(not_written("/proc/no/folder"), "cannot write /proc/no/folder: No such file or directory");
  EXPECT_EQ(not_written(folder()), "cannot write " + folder() + ": Is a directory");
  EXPECT_EQ(not_written("/dev/full"), "cannot write /dev/full: it is not a file");
  EXPECT_THAT(not_written(in_folder(std::string(300, 'x'))), HasSubstr("File name too long"));
  EXPECT_EQ(files(), (std::vector<std::string>{}));
}

TEST_F(BundleFiles, PermissionsStay) {
  const mode_t before = umask(027);
  const std::string path = write_kernels("a", {1});
  struct stat status;
  stat(path.c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777, 0640u) << "as the umask requires";
  chmod(path.c_str(), 0666);
  write_kernels("a", {2});
  stat(path.c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777, 0666u);
  umask(before);
}

TEST_F(BundleFiles, ALinkStandsForItsFile) {
  fs::create_directory(in_folder("elsewhere"));
  std::ofstream(in_folder("elsewhere/file")) << "old";
  fs::create_symlink(in_folder("elsewhere/file"), in_folder("a"));
  write_kernels("a", {1});
  EXPECT_TRUE(fs::is_symlink(in_folder("a")));
  EXPECT_EQ(refusal(in_folder("elsewhere/file")), "");
}

TEST_F(BundleFiles, WhatAReaderWouldNotTakeIsNotWritten) {
  const auto refused = [&](BundleInput input, BundleAbout of = about()) {
    const Status written = write_bundle(in_folder("a"), of, {std::move(input)});
    EXPECT_EQ(files(), (std::vector<std::string>{}));
    return written ? "" : written.error().message;
  };
  BundleInput input = input_number(1);
  input.name = "";
  EXPECT_THAT(refused(input), HasSubstr("names have 1 to 4096 bytes"));
  input.name = std::string(4097, 'x');
  EXPECT_THAT(refused(input), HasSubstr("names have 1 to 4096 bytes"));
  input = input_number(1);
  input.entry.manifest = "{}";
  EXPECT_THAT(refused(input), HasSubstr("of its kernel 'cpu-any kernel_1': its manifest is empty"));
  input = input_number(1);
  input.entry.uncacheable = "it depends on the day";
  EXPECT_THAT(refused(input), HasSubstr("it depends on the day"));
  input = input_number(1);
  input.entry.payload.resize(largest_payload_bytes + 1);
  EXPECT_THAT(refused(input), HasSubstr("a bundle takes kernels of up to 67108864 and 1048576 bytes"));
  EXPECT_THAT(refused(input_number(1), {"acme", "1", "maybe"}), HasSubstr("undeclared = 'maybe'"));
}

TEST_F(BundleFiles, TwoKernelsThatAreNotTheSameAreRefused) {
  BundleInput other = input_number(1);
  other.entry.payload[0] = std::byte{77};
  const Status written = write_bundle(in_folder("a"), about(), {input_number(1), input_number(2), other});
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message,
              HasSubstr("of its kernel 'cpu-any kernel_1': it is there twice, compiled from one source"));
  EXPECT_EQ(files(), (std::vector<std::string>{}));
}

}  // namespace
}  // namespace regard
