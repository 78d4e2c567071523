// Array files on disk: .npy and .safetensors, by file extension.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arrays/element.h"
#include "arrays/safetensors.h"
#include "cli/file_bytes.h"
#include "cli/request.h"

namespace regard::cli {

/// An array in an open file. Its elements are read on demand.
struct LoadedArray {
  std::string path;
  std::shared_ptr<FileBytes> file;
  ArrayView array;

  std::span<const std::byte> elements() const {
    file->read(array.bytes);
    return array.bytes;
  }
};

/// One array from a .npy file, or the only one (or the one called `name`) of a .safetensors file.
LoadedArray load_array(const std::string& path, const std::string& name);

/// The contents of a .safetensors file: tensors by role, and the names of those without one, of which the
/// file of a model has many.
struct LoadedFile {
  std::map<regard_role, LoadedArray> roles;
  std::vector<std::string> others;
};
LoadedFile load_roles(const std::string& path);

/// A result to be written.
struct OutputArray {
  std::string name;
  Element element;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// Writes to `path`: one .safetensors file, one .npy file (for a single array), or a folder of .npy files.
/// Returns the files written. A file appears complete or not at all, and none before all could be written.
std::vector<std::string> save_arrays(const std::string& path, const std::vector<OutputArray>& arrays);

}  // namespace regard::cli
