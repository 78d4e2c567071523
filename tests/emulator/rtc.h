// What the emulated NVRTC and the emulated hiprtc have in common: programs, which the host's compiler
// compiles.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace emulator {

struct Program {
  std::string source, log, code;
  std::string ptx;  ///< NVRTC's
};

inline Program& program_of(void* handle) {
  return *static_cast<Program*>(handle);
}

inline std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary) << text;
}

/// Throws std::runtime_error with what a command that fails wrote to `log`.
inline void run(const std::string& command, const std::filesystem::path& log) {
  if (std::system(fmt::format("{} 2> '{}'", command, log.string()).c_str()) != 0)
    throw std::runtime_error(fmt::format("{}\n{}", command, read(log)));
}

// Results of the functions.
constexpr int success = 0, compilation_failed = 6;

/// `compile` makes the program's code, or throws.
template <class Compile>
int compile_program(void* handle, Compile compile) {
  Program& program = program_of(handle);
  try {
    program.code = compile(program);
  } catch (const std::exception& error) {
    program.log = error.what();
    return compilation_failed;
  }
  return success;
}

inline int copy(const std::string& text, char* to, std::size_t end_mark) {
  std::memcpy(to, text.data(), text.size() + end_mark);
  return success;
}

}  // namespace emulator

/// The functions that differ only in their names: nvrtcCreateProgram, hiprtcCreateProgram.
#define EMULATED_RTC(rtc, RTC)                                                                     \
  const char* rtc##GetErrorString(int result) {                                                    \
    return result == emulator::success ? #RTC "_SUCCESS" : #RTC "_ERROR_COMPILATION";              \
  }                                                                                                \
  int rtc##CreateProgram(void** program, const char* source, const char*, int, const char* const*, \
                         const char* const*) {                                                     \
    *program = new emulator::Program{source, {}, {}, {}};                                          \
    return emulator::success;                                                                      \
  }                                                                                                \
  int rtc##DestroyProgram(void** program) {                                                        \
    delete &emulator::program_of(*program);                                                        \
    *program = nullptr;                                                                            \
    return emulator::success;                                                                      \
  }                                                                                                \
  int rtc##GetProgramLogSize(void* program, std::size_t* size) {                                   \
    *size = emulator::program_of(program).log.size() + 1;                                          \
    return emulator::success;                                                                      \
  }                                                                                                \
  int rtc##GetProgramLog(void* program, char* to) {                                                \
    return emulator::copy(emulator::program_of(program).log, to, 1);                               \
  }
