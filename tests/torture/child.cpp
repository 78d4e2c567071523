// A program that uses the library as any other would: it opens the library, runs one problem and prints one
// line of JSON with the loaded kernels. Its first argument says how it does so.
//   run        once                       twice     twice, even after a failure
//   threads    from 16 threads at once    loop      for each of the given problems in turn
//   fork       a child asks while a thread of this process makes the kernel
//   leave      forks a child that sleeps while a thread makes the kernel
//   ends       and again in an exit handler, and when its own objects are destroyed
//   alarm      while a timer's signal interrupts each waiting system call
//   reaps      and waits for every child of the process, including those that it did not start itself
//   exit       ends while a thread makes the kernel, DELAY seconds after the compile began
//   other      forks a child that asks for the problem after the first while a thread makes the kernel
//   reopen     closes the library and opens it again
//   copies     asks for the first problem, and a second copy of the library (COPY) for the other one
#include <dlfcn.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "regard/regard.h"

namespace {

/// The functions of the library at that path.
struct Library {
#define FUNCTIONS(X) \
  X(problem_parse)   \
  X(problem_destroy) \
  X(problem_tensor)  \
  X(plan_create)     \
  X(plan_destroy) X(plan_prepare) X(plan_json) X(attention) X(info) X(status_message) X(string_free)
#define MEMBER(name) \
  decltype(&regard_##name) name = reinterpret_cast<decltype(name)>(dlsym(handle, "regard_" #name));
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {}
  void* handle;
  FUNCTIONS(MEMBER)
};

struct Answer {
  std::string plan = "null", error, bits;
};

void add_bits(std::uint64_t& hash, const void* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001B3;
}

/// Runs an fp32 problem on fixed inputs; for a GPU (GPU_TARGET) it only prepares the kernels.
Answer ask(const Library& library, const char* text) {
  Answer answer;
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  char* json = nullptr;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  std::vector<std::vector<float>> memory;
  std::vector<int> outputs;
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = std::getenv("GPU_TARGET");
  const auto run = [&] {
    if (library.problem_parse(text, &problem) != REGARD_OK) return false;
    if (library.plan_create(problem, &options, &plan) != REGARD_OK) return false;
    if (library.plan_prepare(plan) != REGARD_OK || library.plan_json(plan, &json) != REGARD_OK) return false;
    if (options.target != nullptr) return true;
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
      regard_use use;
      regard_tensor& tensor = arguments.tensor[role];
      library.problem_tensor(problem, static_cast<regard_role>(role), &use, &tensor);
      if (use != REGARD_INPUT && use != REGARD_OUTPUT) continue;
      std::size_t count = 1;
      for (int i = 0; i < tensor.rank; ++i) count *= static_cast<std::size_t>(tensor.shape[i]);
      std::vector<float>& own = memory.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i)
        own[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(role)) % 101) / 50.0f - 1;
      tensor.data = own.data();
      if (use == REGARD_OUTPUT) outputs.push_back(static_cast<int>(memory.size()) - 1);
    }
    return library.attention(problem, nullptr, &arguments) == REGARD_OK;
  };
  if (run()) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (const int output : outputs) {
      add_bits(hash, memory[static_cast<std::size_t>(output)].data(),
               memory[static_cast<std::size_t>(output)].size() * sizeof(float));
    }
    answer.bits = options.target != nullptr ? "ready" : std::to_string(hash);
    answer.plan = json;
  } else {
    answer.error = library.status_message();
  }
  library.string_free(json);
  library.plan_destroy(plan);
  library.problem_destroy(problem);
  return answer;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 32) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// One write, so that the lines of a forked child and its parent do not mix.
void print(const Library& library, const Answer& answer) {
  char* info = nullptr;
  if (library.info(&info) != REGARD_OK) info = nullptr;
  const std::string line = "{\"pid\": " + std::to_string(getpid()) + ", \"bits\": " + quoted(answer.bits) +
                           ", \"error\": " + quoted(answer.error) + ", \"plan\": " + answer.plan +
                           ", \"info\": " + (info != nullptr ? info : "null") + "}\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
  library.string_free(info);
}

void ask_and_print(const Library& library, const char* text) {
  print(library, ask(library, text));
}

/// Waits until the compiler has started, which writes a line to the file that COMPILES names.
void wait_for_compiler() {
  for (int i = 0; i < 5000; ++i) {
    if (std::FILE* file = std::fopen(std::getenv("COMPILES"), "r")) {
      const int first = std::fgetc(file);
      std::fclose(file);
      if (first != EOF) return;
    }
    usleep(1000);
  }
}

/// Asks again when this program's objects are destroyed; the library's are destroyed before, as it was opened
/// later.
struct AtEnd {
  const Library* library = nullptr;
  const char* text = nullptr;
  ~AtEnd() {
    if (library != nullptr) ask_and_print(*library, text);
  }
} at_end;

void ask_to_the_end(const Library& library, const char* text) {
  at_end.library = new Library(library);
  at_end.text = text;
  std::atexit([] { ask_and_print(*at_end.library, at_end.text); });
  ask_and_print(library, text);
}

/// Installs a handler without SA_RESTART.
void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

void start_alarms() {
  handle(SIGALRM, [](int) {});
  constexpr itimerval often{{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &often, nullptr);
}

void reap_all() {
  handle(SIGCHLD, [](int) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  });
}

void ask_from_threads(const Library& library, const char* text) {
  std::vector<Answer> answers(16);
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (Answer& answer : answers) {
    threads.emplace_back([&] {
      while (!go) std::this_thread::yield();
      answer = ask(library, text);
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();
  for (const Answer& answer : answers) {
    if (answer.bits != answers[0].bits) std::abort();
  }
  print(library, answers[0]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  const std::string how = argv[1];
  const char* const text = argv[3];
  Library library(argv[2]);
  if (library.handle == nullptr) return 65;

  if (how == "run") {
    ask_and_print(library, text);
  } else if (how == "twice") {
    ask_and_print(library, text);
    ask_and_print(library, text);
  } else if (how == "loop") {
    for (int i = 3; i < argc; ++i) ask_and_print(library, argv[i]);
  } else if (how == "threads") {
    ask_from_threads(library, text);
  } else if (how == "ends") {
    ask_to_the_end(library, text);
  } else if (how == "alarm" || how == "reaps") {
    how == "alarm" ? start_alarms() : reap_all();
    ask_and_print(library, text);
  } else if (how == "reopen") {
    for (int round = 0; round < 3; ++round) {
      ask_and_print(library, text);
      dlclose(library.handle);
      library = Library(argv[2]);
    }
    std::thread([&] {
      ask_and_print(library, text);
      dlclose(library.handle);
    }).join();
  } else if (how == "copies") {
    const char* const path = std::getenv("COPY");
    if (path == nullptr || argc < 5) return 64;
    const Library copy(path);
    if (copy.handle == nullptr || copy.handle == library.handle) return 65;
    ask_and_print(library, text);
    ask_and_print(copy, argv[4]);
  } else {
    std::thread maker([&] { ask_and_print(library, text); });
    wait_for_compiler();
    if (const char* delay = std::getenv("DELAY")) usleep(static_cast<useconds_t>(std::atof(delay) * 1e6));
    if (how == "exit") std::exit(0);
    const pid_t child = fork();
    if (child == 0) {
      if (how == "leave") sleep(60);
      ask_and_print(library, how == "other" ? argv[4] : text);
      _exit(0);
    }
    maker.join();
    waitpid(child, nullptr, 0);
  }
  return 0;
}
