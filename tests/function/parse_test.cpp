// A function's text to its tree and back.
#include "function/parse.h"

#include <gmock/gmock.h>

#include "function/print.h"

namespace regard::function {
namespace {

using testing::HasSubstr;

std::vector<Captured> tensors(std::string_view text) {
  if (text.empty()) return {};
  const Result<std::vector<Captured>> parsed = parse_tensors(text);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return *parsed;
}

std::string canonical(Purpose purpose, std::string_view text, std::string_view declared = "") {
  const Result<Function> function = parse(purpose, text, tensors(declared));
  return function ? print(*function) : "refused: " + function.error().message;
}
std::string keep(std::string_view text, std::string_view declared = "") {
  return canonical(Purpose::keep, text, declared);
}
std::string score(std::string_view text, std::string_view declared = "") {
  return canonical(Purpose::score, text, declared);
}

TEST(FunctionText, EqualFunctionsHaveOneText) {
  const char* const causal_documents = "doc[q]==doc[kv]&&kv<=q";
  for (const char* text : {"doc[q]==doc[kv]&&kv<=q", "q>=kv && doc[kv] == doc[q]",
                           "!(kv>q)&&(doc[q]==doc[kv]&&true)", "same=doc[kv]==doc[q];kv<=q&&same"})
    EXPECT_EQ(keep(text, "doc:int32[1]"), keep(causal_documents, "doc:int32[1]")) << text;
  EXPECT_EQ(keep(causal_documents, "doc:int32[1]"), "kv<=q&&doc[q]==doc[kv]");
  EXPECT_EQ(score("slope[h]*(kv-p)+s", "slope:fp32[1]"), "s+slope[h]*float(kv-p)");
  EXPECT_EQ(score("d=q-kv;s-d*d*w[h]", "w:fp32[1]"), "a=q-kv;s-w[h]*float(a*a)");
}

TEST(FunctionText, IsReadAsTheTreeOfWhichItIsMade) {
  const struct {
    Purpose purpose;
    const char *text, *tensors;
  } cases[] = {
      {Purpose::keep, "(kv<4||q-kv<64)&&kv<=q", ""},
      {Purpose::keep, "kv//64==q//64", ""},
      {Purpose::keep, "m[b,h,q//64,kv//64]&&kv<=q", "m:bool[4]"},
      {Purpose::keep, "~(q&3)==(kv^q)>>2|1", ""},
      {Purpose::keep, "abs(q//8-kv//8)<=2&&abs(q%8-kv%8)<=2", ""},
      {Purpose::score, "where(kv<=q,s,-inf)", ""},
      {Purpose::score, "20.0*tanh(s/20.0)", ""},
      {Purpose::score, "s*t", "t:fp32[0]"},
      {Purpose::score, "n=p-kv;s+table[h,where(n<8,n,min(8+int(log(float(n)/8)/log(16.0)*8),15))]",
       "table:fp32[2]"},
      {Purpose::score, "--(s-1.5e-30)", ""},
      {Purpose::score, "----------------------------------------------q", ""},
      {Purpose::score, "s-(q-(kv-1))*-2", ""},
      {Purpose::score, "x=q+1;y=x*x;s+y*y+sin(float(y))", ""},
  };
  for (const auto& c : cases) {
    const std::string text = canonical(c.purpose, c.text, c.tensors);
    EXPECT_THAT(text, testing::Not(HasSubstr("refused"))) << c.text;
    EXPECT_EQ(canonical(c.purpose, text, c.tensors), text) << c.text;
  }
}

TEST(FunctionText, ConstantsAreFolded) {
  EXPECT_EQ(keep("q-kv<8*8-1"), "q-kv<63");
  EXPECT_EQ(keep("7//-2==-4&&7%-2==-1&&1//0==0"), "true");
  EXPECT_EQ(keep("1<<33==2&&-2147483648//-1==-2147483648"), "true");
  EXPECT_EQ(keep("kv<=q&&2<1"), "false");
  EXPECT_EQ(score("s*(1/8)"), "s*0.125");
  EXPECT_EQ(score("s*where(2<1,7,int(-2.7))"), "s*-2.0");
}

TEST(FunctionText, ARefusalNamesThePlace) {
  const struct {
    Purpose purpose;
    const char *text, *sentence;
  } cases[] = {
      {Purpose::score, "s+slop[h]", "'slop' is not a name here; 'slope' is, at character 3"},
      {Purpose::keep, "kv<=q<3", "comparisons do not chain; join two by '&&', at character 6"},
      {Purpose::keep, "kv-q",
       "a condition is required here, not int32; compare with a number, as in x!=0, at "
       "character 1"},
      {Purpose::keep, "kv&&true",
       "'&&' takes conditions, not int32; compare with a number, as in x!=0, at character 3"},
      {Purpose::score, "s<<2", "'<<' takes int32, not fp32; int(x) truncates a number, at character 2"},
      {Purpose::score, "slope[s]", "an index of slope is fp32; int(x) truncates a number, at character 1"},
      {Purpose::score, "slope[h,q]", "slope has 1 dimension, and 2 indices are given, at character 1"},
      {Purpose::score, "sine(s)", "'sine' is not a function here; did you mean 'sin'?, at character 1"},
      {Purpose::score, "min(s)", "min takes 2 operands, not 1, at character 1"},
      {Purpose::score, "(s", "the text ends where ')' belongs, at character 3"},
      {Purpose::score, "s $ 2", "'$' means nothing here, at character 3"},
      {Purpose::score, "s+99999999999",
       "'99999999999' is not an int32; 99999999999.0 would be fp32, at character 3"},
      {Purpose::score, "s=2;s", "'s' has a meaning already; choose another name, at character 1"},
      {Purpose::score, "", "the text ends where a number, a name or '(' belongs, at character 1"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(canonical(c.purpose, c.text, "slope:fp32[1]"), std::string("refused: ") + c.sentence) << c.text;
}

TEST(FunctionText, HasLimits) {
  const std::string brackets(2000, '(');
  EXPECT_THAT(score(brackets), HasSubstr("at most 64 levels"));
  EXPECT_THAT(score(std::string(2000, '-') + "s"), HasSubstr("at most 64 levels"));
  // A conversion is a level too, and parentheses are none: what is printed is accepted again.
  EXPECT_THAT(score(std::string(64, '-') + "q"), HasSubstr("at most 64 levels"));
  const std::string deepest = score(std::string(63, '-') + "q");
  EXPECT_EQ(score(deepest), deepest);
  std::string nested = "a0=q;";
  for (int i = 1; i < 60; ++i) nested += "a" + std::to_string(i) + "=kv-a" + std::to_string(i - 1) + ";";
  const std::string in_full = score(nested + "s*a59");
  EXPECT_EQ(score(in_full), in_full);
  std::string wide = "s";
  for (int i = 0; i < 300; ++i) wide += "+" + std::to_string(i) + ".5*s";
  EXPECT_THAT(score(wide), testing::AnyOf(HasSubstr("at most 256"), HasSubstr("at most 64 levels")));
  EXPECT_THAT(score(std::string(5000, ' ') + "s"),
              HasSubstr("at most 4096 characters, and this one has 5001"));
  EXPECT_EQ(parse_tensors("a:fp32[1],a:fp32[1]").error().message, "a is declared twice");
  EXPECT_EQ(parse_tensors("kv:fp32[1]").error().message,
            "'kv' has a meaning in functions; choose another name");
  EXPECT_EQ(parse_tensors("a:fp16[1]").error().message,
            "'fp16' is not a type of tensor that a function reads; did you mean 'fp32'?");
  EXPECT_EQ(parse_tensors("a:fp32[5]").error().message, "a has 0 to 4 dimensions, not '5'");
}

}  // namespace
}  // namespace regard::function
