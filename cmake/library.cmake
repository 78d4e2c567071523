# Installed: the shared library `regard`, the command `regard`, headers, the CMake package, the pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The command's parts, without main: a static library so that tests can link them. They use the public API; from the
# base room errors as values, the nearest word, printable text, files, threads, and reading and writing JSON; and for
# files the rooms of bundles and arrays.
file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cpp)
list(FILTER cli_sources EXCLUDE REGEX "/main\\.cpp$")
add_library(regard_cli_objects STATIC ${cli_sources})
regard_parse_once(regard_cli_objects)
target_link_libraries(regard_cli_objects PUBLIC regard_arrays regard_bundle CLI11::CLI11)

# The exported symbols are exactly the functions that regard.h declares: neither what the static libraries
# inside happen to make visible nor the compiled-in kernels.
set(public_header ${PROJECT_SOURCE_DIR}/include/regard/regard.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${public_header})
file(STRINGS ${public_header} declarations REGEX "^REGARD_API ")
set(exports)
foreach(declaration ${declarations})
  string(REGEX MATCH "regard_[a-z_0-9]+ *\\(" name "${declaration}")
  string(REGEX REPLACE " *\\($" "" name "${name}")
  string(APPEND exports "    ${name};\n")
endforeach()
set(version_script ${PROJECT_BINARY_DIR}/regard.map)
file(CONFIGURE OUTPUT ${version_script} CONTENT "REGARD_${PROJECT_VERSION_MAJOR} {\n  global:\n${exports}  local: *;\n};\n")

# All objects of the C ABI are linked in; the other rooms contribute what those need.
add_library(regard SHARED $<TARGET_OBJECTS:regard_abi>)
target_link_libraries(regard PRIVATE regard_abi)
# The library stays loaded after dlclose: its own threads, and those in a compile, can still be running its
# code.
target_link_options(regard PRIVATE -Wl,--version-script=${version_script} -Wl,--as-needed -Wl,--exclude-libs,ALL
                                   -Wl,-z,nodelete)
if(NOT REGARD_SANITIZE)
  target_link_options(regard PRIVATE -Wl,--no-undefined)
endif()
target_include_directories(regard PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(regard INTERFACE c_std_11)
set_target_properties(regard PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                        LINK_DEPENDS ${version_script} LINKER_LANGUAGE CXX)

# What `regard build` links other libraries from: the whole library in one object, without kernels. Section
# groups are resolved in it, as each such library must have its own copy of what they contain.
if(NOT REGARD_SANITIZE)
  set(no_kernels ${PROJECT_BINARY_DIR}/no_kernels.cpp)
  file(CONFIGURE OUTPUT ${no_kernels} CONTENT "#include \"engine/built_in.h\"
std::span<const regard::BuiltInKernel> regard::built_in_kernels() { return {}; }\n")
  add_library(regard_no_kernels OBJECT ${no_kernels})
  target_include_directories(regard_no_kernels PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(regard_no_kernels PRIVATE tl::expected)
  set(parts ${PROJECT_BINARY_DIR}/regard_parts.o)
  get_property(rooms GLOBAL PROPERTY regard_rooms)
  list(REMOVE_ITEM rooms abi) # all of its objects go in
  list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_FILE:regard_\\1>")
  list(APPEND rooms $<TARGET_FILE:regard_embedded_files>)
  add_custom_command(
    OUTPUT ${parts}
    COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o ${parts} $<TARGET_OBJECTS:regard_abi>
            $<TARGET_OBJECTS:regard_no_kernels> -Wl,--start-group ${rooms} -Wl,--end-group
    DEPENDS $<TARGET_OBJECTS:regard_abi> $<TARGET_OBJECTS:regard_no_kernels> ${rooms}
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Linking the parts of libraries that regard build makes")
  add_custom_target(regard_parts ALL DEPENDS ${parts})
endif()

add_executable(regard_cli ${PROJECT_SOURCE_DIR}/src/cli/main.cpp)
target_link_libraries(regard_cli PRIVATE regard_cli_objects regard)
if(REGARD_SANITIZE MATCHES "address")
  target_sources(regard_cli PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitize/setuid.cpp)
endif()
target_link_options(regard_cli PRIVATE -Wl,--as-needed)
if(TARGET regard_parts) # whoever builds the command can build with it, and install
  add_dependencies(regard_cli regard_parts)
endif()
# The command finds its library relative to itself after `make install` into any prefix, and after a move.
file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(regard_cli PROPERTIES OUTPUT_NAME regard INSTALL_RPATH "$ORIGIN/${to_libraries}")

# Shell completions are generated with the command, so that anyone who builds the command can install.
set(completion_folder ${PROJECT_BINARY_DIR}/completion)
file(MAKE_DIRECTORY ${completion_folder})
foreach(shell bash zsh fish)
  add_custom_command(TARGET regard_cli POST_BUILD
                     COMMAND regard_cli completion ${shell} > ${completion_folder}/regard.${shell})
endforeach()

set(man_page ${PROJECT_BINARY_DIR}/regard.1)
add_custom_command(TARGET regard_cli POST_BUILD COMMAND regard_cli help man > ${man_page})

# An incomplete build is not installed, not even in part.
foreach(built $<TARGET_FILE:regard_cli> $<TARGET_FILE:regard> ${completion_folder}/regard.fish ${man_page} ${parts})
  install(CODE "if(NOT EXISTS \"${built}\")
    message(FATAL_ERROR \"${built} is not built yet, so nothing is installed; run: cmake --build ${PROJECT_BINARY_DIR}\")
  endif()")
endforeach()

install(TARGETS regard_cli RUNTIME)
install(FILES ${completion_folder}/regard.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME regard)
install(FILES ${completion_folder}/regard.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
        RENAME _regard)
install(FILES ${completion_folder}/regard.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(TARGETS regard EXPORT regard_targets LIBRARY)
if(TARGET regard_parts)
  install(FILES ${parts} TYPE LIB) # beside the library
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/regard TYPE INCLUDE)

# find_package(regard) gives regard::regard. The library's own dependencies stay private.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/regard)
install(EXPORT regard_targets NAMESPACE regard:: DESTINATION ${package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/regard-config.cmake.in
                              ${PROJECT_BINARY_DIR}/regard-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/regard-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/regard-config.cmake ${PROJECT_BINARY_DIR}/regard-config-version.cmake
        DESTINATION ${package_folder})

# The prefix in regard.pc is relative to the file itself, so that an installed tree can be moved.
set(pkgconfig_folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH to_prefix ${pkgconfig_folder} ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/regard.pc.in ${PROJECT_BINARY_DIR}/regard.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/regard.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
