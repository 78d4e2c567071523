// REGARD_SANITIZED: sanitizers replace malloc, `new`, locks and threads themselves.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REGARD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REGARD_SANITIZED 1
#endif
#endif
