// The part of XLA's C interface, version 0.1, that a handler of foreign calls needs: the call frame that it
// gets, and how it answers. Declared here, as a build must not need JAX. XLA's structures grow only at their
// ends, and each stores its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace regard::python::xla {

constexpr int major_version = 0;
constexpr int minor_version = 1;  // the lowest with all of this: a runtime refuses versions above its own

struct Error;    // opaque
struct Context;  // of one execution; opaque

enum class ExtensionKind : int { metadata = 1 };
struct Extension {
  std::size_t size;
  ExtensionKind kind;
  Extension* next;
};

struct Version {
  std::size_t size;
  Extension* extensions;
  int major;
  int minor;
};

/// How XLA queries a handler's metadata: a call that computes nothing.
struct Metadata {
  std::size_t size;
  Version version;
  std::uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

enum class ErrorCode : int {
  cancelled = 1,
  invalid_argument = 3,
  resource_exhausted = 8,
  failed_precondition = 9,
  unimplemented = 12,
  internal = 13,
};
struct CreateError {
  std::size_t size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};
struct DestroyError {
  std::size_t size;
  Extension* extensions;
  Error* error;
};
struct GetStream {
  std::size_t size;
  Extension* extensions;
  Context* context;
  void* stream;
};
/// Memory of the device on which the call runs.
struct AllocateMemory {
  std::size_t size;
  Extension* extensions;
  Context* context;
  std::size_t bytes;
  std::size_t alignment;
  void* data;
};
struct FreeMemory {
  std::size_t size;
  Extension* extensions;
  Context* context;
  std::size_t bytes;
  void* data;
};

struct Api {
  std::size_t size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(CreateError*);
  void* get_message;
  void (*destroy_error)(DestroyError*);
  void* register_handler;
  Error* (*get_stream)(GetStream*);
  void* register_type;
  void* get_context;
  void* set_state;
  void* get_state;
  Error* (*allocate_memory)(AllocateMemory*);
  Error* (*free_memory)(FreeMemory*);
};

enum class DType : int {
  s8 = 2,
  s32 = 4,
  s64 = 5,
  u8 = 6,
  u32 = 8,
  u64 = 9,
  f16 = 10,
  f32 = 11,
  bf16 = 16,
  f8e5m2 = 19,
  f8e4m3fn = 20,
  f8e5m2fnuz = 24,
  f8e4m3fnuz = 25,
};
struct Buffer {
  std::size_t size;
  Extension* extensions;
  DType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};
constexpr int buffer_kind = 1;  // of arguments and of results

enum class AttributeKind : int { scalar = 3, text = 4 };
struct Text {
  const char* data;
  std::size_t size;
};
struct Scalar {
  DType dtype;
  void* value;
};

/// Arguments, and results.
struct Buffers {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  int* kinds;
  void** items;
};
struct Attributes {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  AttributeKind* kinds;
  Text** names;
  void** items;
};

enum class Stage : int { instantiate = 0, prepare = 1, initialize = 2, execute = 3 };
struct Call {
  std::size_t size;
  Extension* extensions;
  const Api* api;
  Context* context;
  Stage stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

using Handler = Error*(Call*);

}  // namespace regard::python::xla
