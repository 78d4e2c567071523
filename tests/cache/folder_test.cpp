// Whatever the state of the folder, an entry that was made is returned, with one sentence why it is not kept.
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <map>

#include "base/text.h"
#include "cache_fixture.h"
#include "support/own_program.h"

namespace regard {
namespace {

using testing::HasSubstr;
using CacheFolder = CacheTest;

// Expects that the entry is made twice, as the cache cannot keep it.
void expect_made_each_time(Cache& cache) {
  for (int round = 0; round < 2; ++round) {
    bool from_cache = true;
    std::string not_kept;
    const Result<CacheEntry> got =
        cache.get(key_number(1), [] { return entry_number(1); }, &from_cache, &not_kept);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_FALSE(from_cache);
    EXPECT_THAT(not_kept, HasSubstr(in_quotes(cache.directory())));
    EXPECT_TRUE(same(*got, entry_number(1)));
  }
  EXPECT_FALSE(cache.publish(key_number(1), entry_number(1)));
  EXPECT_FALSE(cache.find(key_number(1)));
}

TEST_F(CacheFolder, IsMadeWithItsParentsAtTheFirstPublish) {
  folder_ = root_ + "/a/b/ç d";
  Cache cache = open();
  EXPECT_EQ(cache.state(), "ok");
  EXPECT_FALSE(cache.find(key_number(1)));
  EXPECT_FALSE(fs::exists(root_ + "/a"));
  EXPECT_TRUE(cache.publish(key_number(1), entry_number(1)));
  expect_cached(cache, 1);
}

TEST_F(CacheFolder, WritableByOthersIsRefusedEvenWhenEntriesAreGood) {
  for (mode_t mode : {0770, 0702, 01777}) {
    Cache cache = open();
    chmod(folder_.c_str(), 0700);
    ASSERT_TRUE(cache.publish(key_number(1), entry_number(1)));
    chmod(folder_.c_str(), mode);
    EXPECT_THAT(cache.state(), HasSubstr("can be written by others"));
    expect_made_each_time(cache);
    EXPECT_TRUE(cache.list().empty());
    cache.clean();
    EXPECT_TRUE(fs::exists(path_of(1))) << "a folder that is not trusted is left alone";
  }
}

TEST_F(CacheFolder, OfAnotherUserIsRefused) {
  fs::create_directory(folder_);
  chmod(folder_.c_str(), 0700);
  if (geteuid() != 0 || chown(folder_.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "needs root";
  Cache cache = open();
  EXPECT_THAT(cache.state(), HasSubstr("belongs to user 12345"));
  expect_made_each_time(cache);
}

TEST_F(CacheFolder, AFileInItsPlaceIsNamed) {
  write(folder_, "");
  Cache cache = open();
  EXPECT_THAT(cache.state(), HasSubstr("'" + folder_ + "' is not used: it is not a folder"));
  expect_made_each_time(cache);
}

TEST_F(CacheFolder, BelowAFileItCannotBeMade) {
  write(root_ + "/file", "");
  folder_ = root_ + "/file/kernels";
  Cache cache = open();
  EXPECT_THAT(cache.state(), HasSubstr("cannot be made in '" + root_ + "/file'"));
  expect_made_each_time(cache);
}

TEST_F(CacheFolder, ADanglingLinkIsNamed) {
  fs::create_symlink(root_ + "/nowhere", folder_);
  Cache cache = open();
  EXPECT_THAT(cache.state(), HasSubstr("cannot be opened"));
  expect_made_each_time(cache);
}

TEST_F(CacheFolder, ALinkToAFolderOfOursIsFollowed) {
  fs::create_directory(root_ + "/large disk");
  chmod((root_ + "/large disk").c_str(), 0700);
  fs::create_symlink(root_ + "/large disk", folder_);
  Cache cache = open();
  EXPECT_EQ(cache.state(), "ok");
  expect_replaced(cache, 1);
}

TEST_F(CacheFolder, ALinkOfAnotherUserIsNotFollowed) {
  fs::create_directory(root_ + "/private");
  chmod((root_ + "/private").c_str(), 0700);
  fs::create_symlink(root_ + "/private", folder_);
  if (geteuid() != 0 || lchown(folder_.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "needs root";
  Cache cache = open();
  EXPECT_THAT(cache.state(), HasSubstr("is a link that user 12345 made"));
  expect_made_each_time(cache);
  EXPECT_TRUE(fs::is_empty(root_ + "/private"));
}

// Runs body as an ordinary user, because root can write everywhere.
int as_ordinary_user(const std::string& root, const std::function<int()>& body) {
  return wait_for(start([&] {
    if (geteuid() == 0) {
      for (const auto& item : fs::recursive_directory_iterator(root)) {
        if (lchown(item.path().c_str(), 12345, 12345) != 0) return 77;
      }
      if (chown(root.c_str(), 12345, 12345) != 0 || setgid(12345) != 0 || setuid(12345) != 0) return 77;
    }
    return body();
  }));
}

TEST_F(CacheFolder, ThatIsOnlyReadableIsReadAndNothingIsKept) {
  Cache cache = open();
  cache.publish(key_number(2), entry_number(2));
  const int status = as_ordinary_user(root_, [&] {
    chmod(folder_.c_str(), 0500);
    EXPECT_THAT(cache.state(), HasSubstr("is read, but new kernels are not kept: Permission denied"));
    expect_cached(cache, 2);
    expect_made_each_time(cache);
    chmod(folder_.c_str(), 0700);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  if (status == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(status, 0);
}

TEST_F(CacheFolder, AHomeThatCannotBeWrittenIsNamed) {
  fs::create_directory(root_ + "/home");
  folder_ = root_ + "/home/.cache/regard";
  Cache cache = open();
  const int status = as_ordinary_user(root_, [&] {
    chmod((root_ + "/home").c_str(), 0500);
    EXPECT_THAT(cache.state(), HasSubstr("cannot be made in '" + root_ + "/home': Permission denied"));
    expect_made_each_time(cache);
    chmod((root_ + "/home").c_str(), 0600);  // files in it cannot even be looked up
    EXPECT_THAT(cache.state(), HasSubstr("Permission denied"));
    expect_made_each_time(cache);
    chmod((root_ + "/home").c_str(), 0700);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  if (status == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(status, 0);
}

TEST_F(CacheFolder, WhereNoOneCanMakeFilesIsReportedToRootAsWell) {
  EXPECT_THAT(Cache("/proc/regard", 1 << 20, 1).state(), HasSubstr("cannot be made in '/proc'"));
  if (geteuid() != 0) GTEST_SKIP() << "/proc belongs to root";
  EXPECT_THAT(Cache("/proc", 1 << 20, 1).state(), HasSubstr("new kernels are not kept"));
}

TEST_F(CacheFolder, ANameThatIsTooLongIsReported) {
  const std::string name(300, 'n');
  std::string deep = root_;
  while (deep.size() < PATH_MAX) deep += "/" + std::string(200, 'd');
  for (const std::string& folder : {root_ + "/" + name, root_ + "/a/b/" + name, deep}) {
    Cache cache(folder, 1 << 20, 1);
    EXPECT_THAT(cache.state(), HasSubstr("in '" + root_ + "': File name too long"));
    expect_made_each_time(cache);
  }
}

TEST_F(CacheFolder, LinksThatLeadNowhereOrInACircleAreReported) {
  fs::create_symlink(root_ + "/nowhere", root_ + "/dangling");
  fs::create_symlink(root_ + "/round", root_ + "/round");
  for (const auto& [folder, words] : std::vector<std::pair<std::string, std::string>>{
           {"/dangling/kernels", "cannot be made in '" + root_ + "/dangling': it is a dangling link"},
           {"/round", "cannot be opened: Too many levels of symbolic links"},
           {"/round/kernels", "cannot be made in '" + root_ + "': Too many levels of symbolic links"}}) {
    Cache cache(root_ + folder, 1 << 20, 1);
    EXPECT_THAT(cache.state(), HasSubstr(words));
    expect_made_each_time(cache);
  }
}

/// A file system of this size, mounted at the folder for the lifetime of the object.
class SmallDisk {
 public:
  SmallDisk(const std::string& folder, const std::string& options) : folder_(folder) {
    fs::create_directories(folder);
    mounted_ = mount("tmpfs", folder.c_str(), "tmpfs", 0, (options + ",mode=700").c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_ && umount(folder_.c_str()) != 0) ADD_FAILURE() << folder_;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::string folder_;
  bool mounted_;
};

TEST_F(CacheFolder, AFullOrReadOnlyDiskIsReportedWhereverOnItTheFolderIs) {
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::string>>{
           {"size=16k", "No space left on device"}, {"ro", "Read-only file system"}}) {
    const std::string disk = root_ + "/disk";
    const SmallDisk small(disk, options);
    if (!small.mounted()) GTEST_SKIP() << "cannot mount";
    EXPECT_THAT(Cache(disk, 1 << 20, 1).state(),
                HasSubstr("is read, but new kernels are not kept: " + words));
    EXPECT_THAT(Cache(disk + "/a/b", 1 << 20, 1).state(),
                HasSubstr("cannot be made in '" + disk + "': " + words));
    EXPECT_TRUE(fs::is_empty(disk));
  }
}

TEST_F(CacheFolder, LookingAtItsStateLeavesNothingBehind) {
  fs::create_directory(folder_);
  chmod(folder_.c_str(), 0700);
  Cache cache(folder_, 1 << 20, 1);
  EXPECT_EQ(cache.state(), "ok");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(CacheFolder, AFullDiskKeepsNothingAndLeavesNoPieces) {
  const SmallDisk small(folder_, "size=16k");
  if (!small.mounted()) GTEST_SKIP() << "cannot mount";
  Cache cache = open();
  EXPECT_TRUE(cache.publish(key_number(2), entry_number(2, 1000)));
  bool from_cache = true;
  const Result<CacheEntry> got =
      cache.get(key_number(1), [] { return entry_number(1, 100000); }, &from_cache);
  EXPECT_TRUE(got && same(*got, entry_number(1, 100000)) && !from_cache);
  EXPECT_FALSE(cache.find(key_number(1)));
  EXPECT_THAT(files(), testing::ElementsAre(key_number(2).hex() + ".regard"));
  const std::optional<CacheEntry> other = cache.find(key_number(2));
  EXPECT_TRUE(other && same(*other, entry_number(2, 1000)));
}

TEST_F(CacheFolder, AFileSizeLimitIsNoSignal) {
  const int status = wait_for(start([&] {
    Cache cache = open();
    const rlimit limit{2000, 2000};
    setrlimit(RLIMIT_FSIZE, &limit);
    expect_made_each_time(cache);
    EXPECT_TRUE(files().empty());
    return testing::Test::HasFailure() ? 1 : 0;
  }));
  EXPECT_EQ(status, 0);
}

TEST_F(CacheFolder, NoMoreDescriptorsMeansNoCache) {
  const int status = wait_for(start([&] {
    Cache cache = open();
    cache.publish(key_number(2), entry_number(2));
    const rlimit limit{3, 3};
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_made_each_time(cache);
    return testing::Test::HasFailure() ? 1 : 0;
  }));
  EXPECT_EQ(status, 0);
}

TEST_F(CacheFolder, TheWarningComesOncePerProcess) {
  // A process of its own, as this one has warned already, runs the test above with the most failed publishes.
  const int status = wait_for(start([&] {
    const int log = ::open((root_ + "/log").c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(log, STDERR_FILENO);
    unsetenv("GTEST_OUTPUT");  // that is for this process, and a format unknown to the child gives a warning
    test::become_own_program("--gtest_filter=CacheFolder.WritableByOthers*");
    return 98;
  }));
  EXPECT_EQ(status, 0);
  const std::string log = read(root_ + "/log");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_THAT(log, HasSubstr("can be written by others"));
}

/// The default folder in a process of that user with only these of the variables that choose it.
std::string default_with(const std::map<std::string, std::string>& variables, uid_t user = geteuid()) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const int status = wait_for(start([&] {
    for (const char* name : {"XDG_CACHE_HOME", "HOME", "REGARD_CACHE_DIR"}) unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    if (user != geteuid() && setuid(user) != 0) return 77;
    const std::string folder = default_cache_directory();
    return ::write(ends[1], folder.data(), folder.size()) > 0 ? 0 : 1;
  }));
  close(ends[1]);
  char text[4096];
  const ssize_t count = ::read(ends[0], text, sizeof text);
  close(ends[0]);
  return status == 0 && count > 0 ? std::string(text, static_cast<std::size_t>(count)) : "";
}

// Root with a user's environment (sudo) once made ~/.cache, owned by root, which locked the user out.
TEST_F(CacheFolder, InAHomeOfAnotherUserNothingIsMade) {
  const std::string home = root_ + "/home", caches = home + "/.cache";
  fs::create_directories(home);
  chmod(root_.c_str(), 0755);
  if (geteuid() != 0 || chown(home.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(default_with({{"HOME", home}}), "/tmp/regard-0");
  EXPECT_EQ(default_with({{"XDG_CACHE_HOME", home}}), "/tmp/regard-0");
  EXPECT_EQ(default_with({{"HOME", home + "/not/there"}}), "/tmp/regard-0");
  EXPECT_EQ(default_with({{"HOME", home}}, 12345), caches + "/regard");
  EXPECT_EQ(default_with({{"HOME", home}}, 23456), "/tmp/regard-23456");
  EXPECT_EQ(default_with({{"HOME", root_}}), root_ + "/.cache/regard");
  EXPECT_EQ(default_with({{"XDG_CACHE_HOME", "/tmp"}}, 12345), "/tmp/regard");  // the system's
  fs::create_directories(caches + "/regard");                                   // made by root in the past
  EXPECT_EQ(default_with({{"HOME", home}}), caches + "/regard");
}

TEST(DefaultCacheDirectory, FollowsTheEnvironment) {
  const auto with = [](const char* caches, const char* home) {
    const pid_t child = start([&] {
      caches != nullptr ? setenv("XDG_CACHE_HOME", caches, 1) : unsetenv("XDG_CACHE_HOME");
      home != nullptr ? setenv("HOME", home, 1) : unsetenv("HOME");
      unsetenv("REGARD_CACHE_DIR");
      const std::string expected = caches != nullptr && *caches == '/' ? std::string(caches) + "/regard"
                                   : home != nullptr && *home == '/'
                                       ? std::string(home) + "/.cache/regard"
                                       : "/tmp/regard-" + std::to_string(geteuid());
      return default_cache_directory() == expected ? 0 : 1;
    });
    return wait_for(child);
  };
  EXPECT_EQ(with("/x/caches", "/x/home"), 0);
  EXPECT_EQ(with(nullptr, "/x/home"), 0);
  EXPECT_EQ(with("relative", "/x/home"), 0);
  EXPECT_EQ(with("", ""), 0);
  EXPECT_EQ(with(nullptr, nullptr), 0);
}

}  // namespace
}  // namespace regard
