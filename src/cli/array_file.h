// Array files on disk: .npy and .safetensors by the end of their name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/element.h"
#include "cli/request.h"
#include "cli/safetensors.h"

namespace regard::cli {

/// An array that was read, with the file's bytes that it views.
struct LoadedArray {
  std::string path;
  std::shared_ptr<const std::vector<std::byte>> file;
  ArrayView array;
};

/// One array from a .npy file, or the only one (or the one called `name`) of a .safetensors file.
LoadedArray load_array(const std::string& path, const std::string& name);

/// Every tensor of a .safetensors file by its role; a name that is no role is an error that says the nearest
/// one.
std::map<regard_role, LoadedArray> load_roles(const std::string& path);

/// A result on its way out.
struct OutputArray {
  std::string name;
  Element element;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// Writes to `path`: one .safetensors file, one .npy file (for a single array), or a folder of .npy files.
/// Returns the files written. A file appears whole or not at all.
std::vector<std::string> save_arrays(const std::string& path, const std::vector<OutputArray>& arrays);

/// The role called `name`; '-' may stand for '_'. An unknown name is an error that says the nearest one.
regard_role role_called(const std::string& name, const std::string& where);

}  // namespace regard::cli
