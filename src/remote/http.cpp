#include "remote/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "base/interruption.h"
#include "base/process.h"
#include "base/result.h"
#include "base/text.h"
#include "base/thread.h"
#include "remote/curl_library.h"

namespace regard::remote {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int most_redirects = 3;

struct Exchange {
  std::span<const std::byte> unsent;  ///< of the body of a PUT
  std::uint64_t most_bytes = 0;       ///< of the answer
  std::vector<std::byte> answer;
  bool too_large = false, no_memory = false;
  std::array<char, curl::error_size> error{};
};

// Callbacks for libcurl, which is C, so they throw nothing. Returning another number than was passed ends the
// transfer.

std::size_t receive(const char* bytes, std::size_t size, std::size_t count, void* data) {
  Exchange& exchange = *static_cast<Exchange*>(data);
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes, size * count));
  exchange.too_large = part.size() > exchange.most_bytes - exchange.answer.size();
  if (exchange.too_large) return 0;
  try {
    exchange.answer.insert(exchange.answer.end(), part.begin(), part.end());
  } catch (const std::bad_alloc&) {
    exchange.no_memory = true;
    return 0;
  }
  return part.size();
}

/// Takes the response body of a PUT, which is not needed.
std::size_t ignore(const char*, std::size_t size, std::size_t count, void*) {
  return size * count;
}

std::size_t send(char* buffer, std::size_t size, std::size_t count, void* data) {
  Exchange& exchange = *static_cast<Exchange*>(data);
  const std::size_t bytes = std::min(size * count, exchange.unsent.size());
  std::memcpy(buffer, exchange.unsent.data(), bytes);
  exchange.unsent = exchange.unsent.subspan(bytes);
  return bytes;
}

template <auto CurlLibrary::* destroy>
struct Destroy {
  const CurlLibrary* library;
  void operator()(void* object) const { (library->*destroy)(object); }
};
template <auto CurlLibrary::* destroy>
using Owner = std::unique_ptr<void, Destroy<destroy>>;

tl::unexpected<Error> too_late(std::chrono::seconds limit) {
  return invalid(fmt::format("it did not answer in full within {} s", limit.count()));
}

/// Runs until the transfer has ended, and returns libcurl's result code. An error where it took too long or
/// was interrupted.
Result<int> perform(const CurlLibrary& library, void* multi, Clock::time_point deadline,
                    std::chrono::seconds limit) {
  constexpr int pause_ms = 50;
  for (;;) {
    int running = 0, ready = 0;
    if (library.multi_perform(multi, &running) != curl::ok) return curl::out_of_memory;
    if (running == 0) break;
    if (interrupted()) return interruption();
    if (Clock::now() >= deadline) return too_late(limit);
    if (library.multi_wait(multi, nullptr, 0, pause_ms, &ready) != curl::ok) return curl::out_of_memory;
    // While a name is being looked up there is nothing to wait for, so it returns at once.
    if (ready == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  int left = 0;
  const CurlMessage* const message = library.multi_info_read(multi, &left);
  return message == nullptr ? curl::out_of_memory : message->code;
}

/// Whether there is more memory than libcurl takes for the headers of a response, which is 300 KB.
bool has_memory() {
  constexpr std::size_t more = 1 << 20;
  void* volatile block = std::malloc(more);  // volatile, as compilers remove unused allocations
  std::free(block);
  return block != nullptr;
}

tl::unexpected<Error> failed(const CurlLibrary& library, void* easy, int code, const Exchange& exchange,
                             std::chrono::seconds limit) {
  if (code == curl::filesize_exceeded || exchange.too_large)
    return invalid(fmt::format("its answer has more than {} bytes", exchange.most_bytes));
  if (code == curl::operation_timedout) return too_late(limit);
  if (code == curl::out_of_memory && !exchange.no_memory && has_memory())
    return invalid("libcurl cannot take its answer, whose header may be too long");
  long error = 0;
  if (code == curl::couldnt_connect) library.easy_getinfo(easy, curl::os_errno, &error);
  const bool scarce = code == curl::out_of_memory || exchange.no_memory || is_scarce(static_cast<int>(error));
  const char* const words = exchange.error[0] != '\0' ? exchange.error.data() : library.easy_strerror(code);
  return fail(scarce ? ErrorKind::no_memory : ErrorKind::invalid, "libcurl says: " + printable(words));
}

struct Answer {
  long status = 0;
  std::string redirect;  ///< where the server says that the resource is
  std::vector<std::byte> body;
};

struct Request {
  bool put = false;
  std::span<const std::byte> body;
  std::uint64_t most_bytes = 0;
  std::chrono::seconds limit{};
};

/// One request, without following redirects.
Result<Answer> ask(const CurlLibrary& library, const std::string& url, const Request& asked,
                   Clock::time_point deadline) {
  const NoSignals guard;
  Exchange exchange{asked.body, asked.most_bytes};
  // Turns off "Expect: 100-continue", which would cost a second with a server that does not support it.
  const Owner<&CurlLibrary::slist_free_all> headers(library.slist_append(nullptr, "Expect:"), {&library});
  const Owner<&CurlLibrary::easy_cleanup> easy(library.easy_init(), {&library});
  const Owner<&CurlLibrary::multi_cleanup> multi(library.multi_init(), {&library});
  if (!headers || !easy || !multi) return fail(ErrorKind::no_memory, "libcurl has no memory");

  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  const long milliseconds = static_cast<long>(std::max<std::int64_t>(1, left.count()));
  bool set = true;
  const auto option = [&](curl::Option name, auto value) {
    set = set && library.easy_setopt(easy.get(), name, value) == curl::ok;
  };
  option(curl::url, url.c_str());
  option(curl::errorbuffer, exchange.error.data());
  option(curl::nosignal, 1L);
  option(curl::failonerror, 1L);
  option(curl::netrc, curl::netrc_optional);
  option(curl::ssl_verifypeer, 1L);
  option(curl::ssl_verifyhost, 2L);
  if (const char* const file = variable("SSL_CERT_FILE"); file != nullptr && *file != '\0')
    option(curl::cainfo, file);
  option(curl::timeout_ms, milliseconds);
  option(curl::connecttimeout_ms, milliseconds);
  option(curl::useragent, "regard");
  option(curl::httpheader, headers.get());
  option(curl::writedata, static_cast<void*>(&exchange));
  option(curl::writefunction, asked.put ? &ignore : &receive);
  if (asked.put) {
    option(curl::upload, 1L);
    option(curl::readdata, static_cast<void*>(&exchange));
    option(curl::readfunction, &send);
    option(curl::infilesize_large, static_cast<std::int64_t>(asked.body.size()));
  } else {
    option(curl::maxfilesize_large, static_cast<std::int64_t>(asked.most_bytes));
  }
  if (!set) return fail(ErrorKind::no_memory, "libcurl does not take an option");
  // Do not wait for a slow name server. Old versions do not know this option.
  library.easy_setopt(easy.get(), curl::quick_exit, 1L);

  if (library.multi_add_handle(multi.get(), easy.get()) != curl::ok)
    return fail(ErrorKind::no_memory, "libcurl has no memory");
  const Result<int> code = perform(library, multi.get(), deadline, asked.limit);
  Answer answer;
  library.easy_getinfo(easy.get(), curl::response_code, &answer.status);
  const char* redirect = nullptr;
  library.easy_getinfo(easy.get(), curl::redirect_url, &redirect);
  if (redirect != nullptr) answer.redirect = redirect;
  library.multi_remove_handle(multi.get(), easy.get());
  if (!code) return tl::unexpected(code.error());
  if (*code != curl::ok && *code != curl::http_returned_error)
    return failed(library, easy.get(), *code, exchange, asked.limit);
  answer.body = std::move(exchange.answer);
  return answer;
}

/// "http://host:port" in lower case; without a port where it is the scheme's default. Equal for the same
/// server.
std::string origin(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return "";
  std::string root = lower(url.substr(0, url.find_first_of("/?#", scheme + 3)));
  const std::string_view port = root.starts_with("https:") ? ":443" : ":80";
  if (root.ends_with(port)) root.resize(root.size() - port.size());
  return root;
}

/// Whether the server asks for the same request, with the same method, at another URL.
bool redirects(long status) {
  return status == 301 || status == 302 || status == 307 || status == 308;
}

/// The response at the end of the redirects.
Result<Answer> request(const std::string& url, const Request& asked) {
  const Result<const CurlLibrary*> library = curl_library();
  if (!library) return tl::unexpected(library.error());
  const Clock::time_point deadline = Clock::now() + asked.limit;
  std::string current = url;
  for (int i = 0;; ++i) {
    Result<Answer> answer = ask(**library, current, asked, deadline);
    if (!answer || !redirects(answer->status)) return answer;
    if (i == most_redirects) return invalid(fmt::format("it redirects more than {} times", most_redirects));
    if (origin(answer->redirect) != origin(url)) {
      return invalid(fmt::format("it redirects to {}, and only redirects within {} are followed",
                                 in_quotes(without_secrets(answer->redirect)), origin(url)));
    }
    current = std::move(answer->redirect);
  }
}

}  // namespace

Status check_url(std::string_view url) {
  const std::string root = origin(url);
  const auto wrong = [&](const char* why) { return invalid(in_quotes(without_secrets(url)) + " " + why); };
  if (url.find('@') != std::string_view::npos)
    return invalid(
        "names and passwords do not belong in the URL, which is shown in reports; put them into ~/.netrc "
        "(an @ of the path is written %40)");
  if (!root.starts_with("http://") && !root.starts_with("https://"))
    return wrong("is no URL of a server; use http://HOST/PATH or https://HOST/PATH");
  if (root.ends_with("://")) return wrong("names no host; use http://HOST/PATH or https://HOST/PATH");
  if (url.find_first_of("?#") != std::string_view::npos)
    return wrong(
        "has something after its path; keys are appended to it, so leave out what begins with ? or #");
  return {};
}

Result<std::optional<std::vector<std::byte>>> get(const std::string& url, std::uint64_t most_bytes,
                                                  std::chrono::seconds limit) {
  Result<Answer> answer = request(url, {false, {}, most_bytes, limit});
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status == 404) return std::nullopt;
  if (answer->status != 200) return invalid(fmt::format("it answers a GET with status {}", answer->status));
  return std::move(answer->body);
}

Status put(const std::string& url, std::span<const std::byte> body, std::chrono::seconds limit) {
  const Result<Answer> answer = request(url, {true, body, 0, limit});
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status < 200 || answer->status > 299)
    return invalid(fmt::format("it answers a PUT with status {}", answer->status));
  return {};
}

}  // namespace regard::remote
