#include "engine/compilers_in_cache.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace regard {
namespace {

TEST(CompilersInCache, AnotherProcessFindsWhatOneWasTold) {
  const TemporaryFolder folder;
  const std::string file = "/usr/bin/cl\xff, inode 7";
  {
    Cache cache(folder.path(), 1 << 20, 1);
    CompilersInCache compilers(cache);
    EXPECT_EQ(compilers.recall(file), std::nullopt);
    compilers.remember(file, "clang version 1; Target: here");
  }
  Cache cache(folder.path(), 1 << 20, 1);
  CompilersInCache compilers(cache);
  EXPECT_EQ(compilers.recall(file), "clang version 1; Target: here");
  EXPECT_EQ(compilers.recall(file + " changed"), std::nullopt);
  ASSERT_EQ(cache.verify().size(), 1u);
  EXPECT_EQ(cache.verify().front().problem, "");
  cache.clean();
  EXPECT_EQ(compilers.recall(file), std::nullopt);
}

}  // namespace
}  // namespace regard
