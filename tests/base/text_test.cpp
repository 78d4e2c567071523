#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace regard {
namespace {

using namespace std::string_view_literals;
using testing::EndsWith;
using testing::StartsWith;

TEST(Printable, LeavesTextAsItIs) {
  for (const std::string_view text :
       {""sv, "fwd bf16 s=8"sv, "C:\\temp\\new"sv, "K\u00f6ln \u2264 \u65e5\u672c \U0001F600"sv, "'\"$`"sv})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(printable("\x1b[31mred\a\x7f"), "\\x1b[31mred\\x07\\x7f");
  EXPECT_EQ(printable("a\0b"sv), "a\\x00b");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");            // a one-character control sequence
  EXPECT_EQ(printable("\u2028\u2029"), "\\u2028\\u2029");     // these end lines as well
  EXPECT_EQ(printable("a\u202egnp.exe"), "a\\u202egnp.exe");  // written from right to left
  EXPECT_EQ(printable("\u2066\u200f\u061c"), "\\u2066\\u200f\\u061c");
  EXPECT_EQ(printable("\ufeff[build]"), "\\ufeff[build]");
}

TEST(Printable, EscapesEachByteThatIsNoUtf8) {
  EXPECT_EQ(printable("K\xf6ln"), "K\\xf6ln");  // ISO 8859-1
  EXPECT_EQ(printable("\x80\xff"), "\\x80\\xff");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");  // the end is missing
  EXPECT_EQ(printable("\xe2\x82z"), "\\xe2\\x82z");
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");                    // a newline in two bytes
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a UTF-16 pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
}

TEST(Printable, KeepsTheLinesOfACompilerAndNothingElseOfIt) {
  EXPECT_EQ(printable("a.cpp:1:\n\t\x1b[1merror\r\n", Newlines::kept), "a.cpp:1:\n\t\\x1b[1merror\\r\n");
}

TEST(Printable, ChangesNothingMoreWhenAppliedAgain) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string once = printable(all);
  EXPECT_EQ(printable(once), once);
}

TEST(InQuotes, ShortensALongWordAtWholeCharacters) {
  std::string word;
  for (int i = 0; i < 1 << 20; ++i) word += "\u00e9";
  const std::string shown = in_quotes(word);
  EXPECT_LT(shown.size(), 400u);
  EXPECT_THAT(shown, StartsWith("'\u00e9\u00e9"));
  EXPECT_THAT(shown, EndsWith("\u00e9\u00e9'"));
  EXPECT_NE(shown.find(" [...] "), std::string::npos);
  EXPECT_EQ(shown.find('\\'), std::string::npos);
  EXPECT_EQ(in_quotes("short"), "'short'");
}

TEST(Shortened, IsNeverLongerThanAsked) {
  for (std::size_t most : {0, 1, 7, 8, 20, 100})
    EXPECT_LE(shortened(std::string(200, 'x'), most).size(), std::max<std::size_t>(most, 7));
  EXPECT_EQ(shortened(std::string(200, 'x'), 200), std::string(200, 'x'));
}

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
