# Headers that most files include.
set(regard_common_headers <fmt/format.h> <nlohmann/json.hpp> <tl/expected.hpp> <algorithm> <filesystem> <fstream> <functional>
    <map> <random> <set> <span> <string> <thread> <vector>)

# regard_parse_once(target): in checked builds, whose compiles take longest, and in cross builds, a precompiled header
# holds the common headers for all such targets. The release build has none, so that it detects an include missing in src.
function(regard_parse_once target)
  if(NOT REGARD_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    return()
  elseif(TARGET regard_parsed)
    target_precompile_headers(${target} REUSE_FROM regard_parsed)
  else()
    add_library(regard_parsed ALIAS ${target})
    target_precompile_headers(${target} PRIVATE ${regard_common_headers})
  endif()
endfunction()

# regard_room(name dependency...): builds everything below src/<name> as the static library regard_<name>. A
# dependency that is a room is given by its room's name. The global property regard_rooms lists all rooms.
function(regard_room name)
  set_property(GLOBAL APPEND PROPERTY regard_rooms ${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)
    add_library(regard_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(regard_${name} STATIC ${sources})
    regard_parse_once(regard_${name})
    # A unique symbol exists once in the whole process and cannot be made local: two libraries made by `regard
    # build` would share it, and export it.
    target_compile_options(regard_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
    set(scope PUBLIC)
  endif()
  target_include_directories(regard_${name} ${scope} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                                     ${PROJECT_SOURCE_DIR})
  foreach(dependency ${ARGN})
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${dependency})
      target_link_libraries(regard_${name} ${scope} regard_${dependency})
    else()
      target_link_libraries(regard_${name} ${scope} ${dependency})
    endif()
  endforeach()
  target_link_libraries(regard_${name} ${scope} Threads::Threads)
endfunction()

# regard_embed(target path...): every file that is one of these paths or is below one, as a string constant in
# one library.
function(regard_embed target)
  set(files)
  foreach(place ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${place}/*)
    if(NOT IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${place})
      set(found ${place})
    endif()
    list(APPEND files ${found})
  endforeach()
  list(SORT files)
  set(output ${PROJECT_BINARY_DIR}/embedded_files.cpp)
  set(list_file ${PROJECT_BINARY_DIR}/embedded_files.txt)
  list(JOIN files "\n" lines)
  file(GENERATE OUTPUT ${list_file} CONTENT "${lines}\n")
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE inputs)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DLIST=${list_file} -DROOT=${PROJECT_SOURCE_DIR} -DOUTPUT=${output} -P
            ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${inputs} ${list_file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding kernels, targets and profiles")
  add_library(${target} STATIC ${output})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE tl::expected)
endfunction()

# regard_built_in_kernels(target PROFILE name TARGETS name...): the profile's kernels as one static library.
function(regard_built_in_kernels target)
  cmake_parse_arguments(arg "" "PROFILE" "TARGETS" ${ARGN})
  set(folder ${PROJECT_BINARY_DIR}/built_in)
  set(archive ${folder}/kernels.a)
  set(table ${folder}/built_in_table.cpp)
  list(JOIN arg_TARGETS "," targets)
  if(REGARD_BUILT_IN_FROM) # another build of the same tree has compiled them
    set(archive ${REGARD_BUILT_IN_FROM}/built_in/kernels.a)
    set(table ${REGARD_BUILT_IN_FROM}/built_in/built_in_table.cpp)
  else()
    add_custom_command(
      OUTPUT ${archive} ${table}
      COMMAND regard-build --profile ${arg_PROFILE} --targets ${targets} --compiler ${CMAKE_CXX_COMPILER} --output
              ${folder} --objects ${folder}/objects.txt
      COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
      COMMAND ${CMAKE_AR} qcs ${archive} @${folder}/objects.txt
      DEPENDS regard-build
      COMMENT "Compiling the built-in kernels")
  endif()
  add_library(${target} STATIC ${table})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${archive} PRIVATE tl::expected)
endfunction()
