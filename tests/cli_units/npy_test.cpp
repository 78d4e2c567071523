#include "cli/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/files.h"

namespace regard::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string npy(const std::string& dictionary, const std::string& data) {
  std::string file = "\x93NUMPY";
  file += {'\1', '\0', static_cast<char>(dictionary.size() & 255), static_cast<char>(dictionary.size() >> 8)};
  return file + dictionary + data;
}

std::string error_of(const std::string& file) {
  const auto array = read_npy(bytes(file));
  return array ? "" : array.error().message;
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const std::string file =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }         \n", std::string(24, '\0'));
  const auto array = read_npy(bytes(file));
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->element, Element::f32);
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_EQ(array->bytes.size(), 24u);
}

TEST(Npy, ReadsItsOwnHeaderForEveryElementAndRank) {
  for (const ElementInfo& element : element_table()) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {5}, {2, 0, 3}, {1, 2, 3, 4}}) {
      const std::string header = npy_header(element.element, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      const std::string file =
          header + std::string(static_cast<std::size_t>(*bytes_of(element.element, shape)), 'x');
      const auto array = read_npy(bytes(file));
      ASSERT_TRUE(array) << element.name << shape_text(shape) << ": " << array.error().message;
      EXPECT_TRUE(same_bits(array->element, element.element)) << element.name;
      EXPECT_EQ(array->shape, shape);
    }
  }
}

TEST(Npy, SaysWhatIsWrong) {
  const struct {
    std::string file, message;
  } cases[] = {
      {"", "does not start with"},
      {"PK\3\4", "does not start with"},
      {std::string("\x93NUMPY\x09\0\0\0", 10), "version 9"},
      {std::string("\x93NUMPY\x01\0\xff\x01{", 11), "truncated"},
      {std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{", 13), "header is 4294967295 bytes long"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "x"), "truncated"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "12345"), "too long"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234"), "Fortran order"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"), "big-endian"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "12345678"), "'<c8'"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "12345678"), "'|O'"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"), "header is not"},
      {npy("{'descr': '<f4', 'shape': (1,), }", "1234"), "header is not"},
      {std::string("\x93NUMPY\x01\x01\0\0", 10), "version 1.1"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234"),
       "header is not"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", ""), "header is not"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,), }", ""),
       "header is not"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", ""), "2^63"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } import os", "1234"), "header is not"},
  };
  for (const auto& each : cases) EXPECT_THAT(error_of(each.file), HasSubstr(each.message)) << each.file;
}

std::string error_of_shape(const std::string& shape, std::size_t elements) {
  return error_of(
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }", std::string(elements, 'x')));
}

TEST(Npy, ShapesAreTuplesAsPythonTakesThem) {
  for (const char* shape : {"(4,)", "(1,4)", "( 1 , 4 ,)", "(2, 2)", "(1, 4, 1)", "(4, 1)"})
    EXPECT_EQ(error_of_shape(shape, 4), "") << shape;
  for (const char* shape : {"(0,)", "(0, 4)", "(1, 0)"}) EXPECT_EQ(error_of_shape(shape, 0), "") << shape;
  EXPECT_EQ(error_of_shape("()", 1), "");
  for (const char* shape :
       {"(04,)", "(1,04)", "(1, 04, 1)", "(00, 4)", "(-0,)",   "(1, -0)", "(+4,)",  "(4)",
        "(4",    "4",      "[4]",        "(4,,)",   "(,4)",    "(,)",     "(4 1)",  "(4.0,)",
        "(4L,)", "(4e0,)", "(0x4,)",     "('4',)",  "(True,)", "(4_,)",   "((4,),)"})
    for (const std::size_t elements : {0, 1, 4})
      EXPECT_THAT(error_of_shape(shape, elements), HasSubstr("header is not")) << shape;
}

TEST(Npy, SurvivesDamagedFiles) {
  const std::string file = npy_header(Element::f16, std::vector<std::int64_t>{3, 5}) + std::string(30, '1');
  survive(file, [](const std::string& damaged) { (void)error_of(damaged); });
}

}  // namespace
}  // namespace regard::cli
