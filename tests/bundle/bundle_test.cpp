// A bundle reads back as it was written, and the same kernels give the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bundle_fixture.h"

namespace regard {
namespace {

using Bundles = BundleTest;

TEST_F(Bundles, WhatIsWrittenIsRead) {
  const std::string path = write_kernels("a", {3, 1, 2});
  const auto bundle = open(path);
  EXPECT_EQ(bundle->path(), path);
  EXPECT_EQ(bundle->about(), about());
  ASSERT_EQ(bundle->kernels().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const int number = static_cast<int>(i) + 1;
    const BundleKernel& kernel = bundle->kernels()[i];
    const BundleInput input = input_number(number);
    EXPECT_EQ(kernel.name, input.name);
    EXPECT_EQ(kernel.source, input.source);
    EXPECT_EQ(kernel.identity, input.identity);
    const Result<CacheEntry> entry = bundle->read(kernel);
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(entry->manifest, input.entry.manifest);
    EXPECT_EQ(entry->payload, input.entry.payload);
  }
}

TEST_F(Bundles, TheOrderOfTheInputDoesNotMatter) {
  EXPECT_EQ(read_bytes(write_kernels("a", {1, 2, 3, 4})), read_bytes(write_kernels("b", {4, 2, 3, 1, 2})));
}

}  // namespace
}  // namespace regard
