#include "base/url.h"

#include <gtest/gtest.h>

namespace regard {
namespace {

TEST(Url, IsShownWithoutItsSecrets) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"https://h:1/x/y", "https://h:1/x/y"},
      {"http://u:secret@h/x", "http://***@h/x"},
      {"http://secret@h", "http://***@h"},
      {"http://u:sec/ret?a#b@c@h/x", "http://***@h/x"},
      {"u:secret@h/x", "***@h/x"},
      {"u:se://cret@h/x", "u:se://***@h/x"},
      {"secret@h/x://y", "***@h/x://y"},
      {"http://h/x?token=secret#y", "http://h/x?***"},
      {"http://h/x#secret", "http://h/x#***"},
      {"http://u:secret@h/x?secret", "http://***@h/x?***"},
      {"http://h/\n", "http://h/\\n"},
  };
  for (const auto& [url, shown] : cases) EXPECT_EQ(without_secrets(url), shown) << url;
}

}  // namespace
}  // namespace regard
