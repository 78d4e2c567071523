# What a build needs and a machine may lack: everything missing is named in one sentence, with the command that
# installs it.
set(regard_missing)

# regard_require(package [COMPONENTS ...]): find_package that does not stop at the first missing package.
macro(regard_require package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    list(APPEND regard_missing ${package})
  endif()
endmacro()

# regard_require_module(name module): the same for a pkg-config module.
macro(regard_require_module name module)
  if(PkgConfig_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  endif()
  if(NOT ${name}_FOUND)
    list(APPEND regard_missing ${module})
  endif()
endmacro()

# The packages are those that ./dev installs.
function(regard_refuse_missing)
  if(NOT regard_missing)
    return()
  endif()
  list(JOIN regard_missing ", " missing)
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/dev script)
  string(REGEX MATCH "\npackages_for_building=\"([^\"]*)\"" _ "${script}")
  string(REGEX MATCHALL "\n[^ \n]+" packages "${CMAKE_MATCH_1}")
  list(JOIN packages "" packages)
  string(REPLACE "\n" " " packages "${packages}")
  message(FATAL_ERROR "Regard is compiled from source, and this machine lacks ${missing}. On Debian or Ubuntu run, as "
                      "root: apt-get install -y${packages}")
endfunction()

# Before CMake looks for a compiler and fails with a page of output.
if(NOT CMAKE_CXX_COMPILER AND "$ENV{CXX}" STREQUAL "")
  find_program(regard_compiler NAMES c++ g++ clang++ NO_CACHE)
  if(NOT regard_compiler)
    set(regard_missing "a C++ compiler")
    regard_refuse_missing()
  endif()
endif()
