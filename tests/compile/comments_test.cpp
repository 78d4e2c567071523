// Comments, and text that only looks like one.
#include "compile/comments.h"

#include <gtest/gtest.h>

namespace regard {
namespace {

struct Case {
  std::string_view text, code;
};

void expect(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(without_comments(c.text), c.code) << c.text;
}

TEST(Comments, GoWithTheBlanksAndLinesThatTheyLeave) {
  expect({
      {"", ""},
      {"a;\n", "a;\n"},
      {"  a;  // why\n", "  a;\n"},
      {"// why\n\n  // and how\na;\n", "a;\n"},
      {"a;   \n \t \n\nb;\n", "a;\nb;\n"},
      {"a;  // no end", "a;"},
      {"a;\n/* of\n\n   lines */\nb;\n", "a;\nb;\n"},
      {"a; /* no end\n", "a;"},
      {"a;  // why /* not\nb;  // */\n", "a;\nb;\n"},
      {"/* a // */ b;\n", "b;\n"},
      {"  /* a */ b;\n", "  b;\n"},
  });
}

TEST(Comments, InACallOrBetweenWordsLeaveABlankAtMost) {
  expect({
      {"f(/*decodes=*/false);\n", "f(false);\n"},
      {"f(a, /* why */ b);\n", "f(a, b);\n"},
      {"f(a /* why */, b/* how */);\n", "f(a , b);\n"},
      {"int/**/a;\n", "int a;\n"},
      {"a +/**/+b;\n", "a + +b;\n"},
      {"#define F/**/(x)\n", "#define F (x)\n"},
      {"a /* of\n lines */ + b;\n", "a + b;\n"},
  });
}

TEST(Comments, ContinueOnTheNextLine) {
  expect({
      {"a;  // why \\\nnot;\nb;\n", "a;\nb;\n"},
      {"// why \\  \nnot;\nb;\n", "b;\n"},
      {"#define F(x) \\\n  g(x); /* why */ \\\n  /* how */ \\\n  h(x)\nb;\n",
       "#define F(x) \\\n  g(x); \\\n  h(x)\nb;\n"},
      // A line with only a comment ends a macro.
      {"#define F(x) \\\n  g(x) \\\n  // why\nb;\n", "#define F(x) \\\n  g(x)\nb;\n"},
      {"#define F(x) \\\n  g(x) \\\n\nb;\n", "#define F(x) \\\n  g(x)\nb;\n"},
  });
}

TEST(Comments, AreNoneInLiterals) {
  expect({
      {"s = \"// a /* b */  \";  // c\n", "s = \"// a /* b */  \";\n"},
      {"s = \"\\\"// a\\\\\";  // \"b\"\n", "s = \"\\\"// a\\\\\";\n"},
      {"asm(\"// ptx\\n\\t\"  // why\n    \"bar; // x\");\n", "asm(\"// ptx\\n\\t\"\n    \"bar; // x\");\n"},
      {"s = \"a \\\n  // b\";\n", "s = \"a \\\n  // b\";\n"},
      {"c = '\"';  // d\n", "c = '\"';\n"},
      {"c = '\\'';  // d\ne = u8'/';  // f\n", "c = '\\'';\ne = u8'/';\n"},
      {"n = 1'000'000;  // it's\n", "n = 1'000'000;\n"},
      {"x = 0x1p+3'0f + .5'5;  // it's\n", "x = 0x1p+3'0f + .5'5;\n"},
      {"#error don't  // why\na;  // b\n", "#error don't  // why\na;\n"},
  });
}

TEST(Comments, AreNoneInRawStrings) {
  expect({
      {"s = R\"(// a\n\n  \"b\" /* c */  \n)\";  // d\n", "s = R\"(// a\n\n  \"b\" /* c */  \n)\";\n"},
      {"s = u8R\"x( )\" // a )x\";  // b\n", "s = u8R\"x( )\" // a )x\";\n"},
      {"s = FOR\"(\";  // a\n", "s = FOR\"(\";\n"},
      {"s = R\"(no end // a\n", "s = R\"(no end // a\n"},
  });
}

}  // namespace
}  // namespace regard
