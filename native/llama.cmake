# Target isopro_llama: headers, libllama, libggml and libggml-base of the pinned llama.cpp. Target
# isopro_llama_headers: the headers alone; target isopro_ggml: with libggml-base, which is all that
# native/training and native/kernels need. Function isopro_copy_llama_libraries(target): puts every
# library of that build beside the target.

execute_process(
  COMMAND node "${CMAKE_CURRENT_SOURCE_DIR}/scripts/locate-llama.mjs"
  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
  OUTPUT_VARIABLE ISOPRO_LLAMA_LOCATION OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE ISOPRO_LLAMA_STATUS)
if(NOT ISOPRO_LLAMA_STATUS EQUAL 0)
  message(FATAL_ERROR "isopro-native: the llama.cpp libraries could not be located (see the line above)")
endif()
# Three lines: path of the git bundle, its release, folder of the platform's libraries (empty where
# there is none).
string(REPLACE "\n" ";" ISOPRO_LLAMA_LOCATION "${ISOPRO_LLAMA_LOCATION};;")
list(GET ISOPRO_LLAMA_LOCATION 0 ISOPRO_LLAMA_BUNDLE)
list(GET ISOPRO_LLAMA_LOCATION 1 ISOPRO_LLAMA_RELEASE)
list(GET ISOPRO_LLAMA_LOCATION 2 ISOPRO_LLAMA_LIBRARIES)

set(ISOPRO_LLAMA_SOURCE "${CMAKE_BINARY_DIR}/llama.cpp-${ISOPRO_LLAMA_RELEASE}")
set(ISOPRO_FROM_SOURCE OFF)
if("$ENV{ISOPRO_LLAMA_FROM_SOURCE}" STREQUAL "1")
  set(ISOPRO_FROM_SOURCE ON)
elseif(ISOPRO_LLAMA_LIBRARIES STREQUAL "")
  message(FATAL_ERROR
    "isopro-native: node-llama-cpp has no prebuilt llama.cpp for this platform; "
    "set ISOPRO_LLAMA_FROM_SOURCE=1 and install again to compile it (about 3 minutes on 2 cores)")
endif()

find_package(Git REQUIRED)
# npm may run inside a git hook, whose variables would point this git at the outer repository.
set(ISOPRO_GIT ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
  ${GIT_EXECUTABLE} -c advice.detachedHead=false -c core.autocrlf=false)
if(ISOPRO_FROM_SOURCE)
  set(ISOPRO_LLAMA_PATHS .)
  set(ISOPRO_LLAMA_STAMP "${ISOPRO_LLAMA_SOURCE}/.source-complete")
else()
  set(ISOPRO_LLAMA_PATHS include ggml/include)
  set(ISOPRO_LLAMA_STAMP "${ISOPRO_LLAMA_SOURCE}/.headers-complete")
endif()
if(NOT EXISTS "${ISOPRO_LLAMA_STAMP}")
  file(REMOVE_RECURSE "${ISOPRO_LLAMA_SOURCE}")
  execute_process(
    COMMAND ${ISOPRO_GIT} clone --quiet --no-checkout "${ISOPRO_LLAMA_BUNDLE}" "${ISOPRO_LLAMA_SOURCE}"
    RESULT_VARIABLE ISOPRO_GIT_STATUS)
  if(ISOPRO_GIT_STATUS EQUAL 0)
    execute_process(
      COMMAND ${ISOPRO_GIT} -C "${ISOPRO_LLAMA_SOURCE}" checkout --quiet HEAD -- ${ISOPRO_LLAMA_PATHS}
      RESULT_VARIABLE ISOPRO_GIT_STATUS)
  endif()
  if(NOT ISOPRO_GIT_STATUS EQUAL 0)
    message(FATAL_ERROR "isopro-native: git could not read llama.cpp out of ${ISOPRO_LLAMA_BUNDLE}")
  endif()
  if(ISOPRO_FROM_SOURCE)
    # node-llama-cpp's binaries carry these corrections; a library without them would be another
    # engine.
    get_filename_component(ISOPRO_LLAMA_PACKAGE "${ISOPRO_LLAMA_BUNDLE}" DIRECTORY)
    file(GLOB ISOPRO_LLAMA_PATCHES "${ISOPRO_LLAMA_PACKAGE}/patches/*.diff")
    foreach(patch IN LISTS ISOPRO_LLAMA_PATCHES)
      execute_process(
        COMMAND ${ISOPRO_GIT} -C "${ISOPRO_LLAMA_SOURCE}" apply --ignore-whitespace "${patch}"
        RESULT_VARIABLE ISOPRO_GIT_STATUS)
      if(NOT ISOPRO_GIT_STATUS EQUAL 0)
        message(FATAL_ERROR "isopro-native: ${patch} does not apply to llama.cpp ${ISOPRO_LLAMA_RELEASE}")
      endif()
    endforeach()
  endif()
  file(REMOVE_RECURSE "${ISOPRO_LLAMA_SOURCE}/.git")
  file(WRITE "${ISOPRO_LLAMA_STAMP}" "${ISOPRO_LLAMA_RELEASE}\n")
endif()

add_library(isopro_llama_headers INTERFACE)
# SYSTEM: warnings are errors in our code, not in llama.cpp's headers.
target_include_directories(isopro_llama_headers SYSTEM INTERFACE
  "${ISOPRO_LLAMA_SOURCE}/include" "${ISOPRO_LLAMA_SOURCE}/ggml/include")
target_compile_definitions(isopro_llama_headers INTERFACE ISOPRO_LLAMA_RELEASE="${ISOPRO_LLAMA_RELEASE}")
add_library(isopro_llama INTERFACE)
target_link_libraries(isopro_llama INTERFACE isopro_llama_headers)
add_library(isopro_ggml INTERFACE)
target_link_libraries(isopro_ggml INTERFACE isopro_llama_headers)

if(APPLE)
  set(ISOPRO_ORIGIN "@loader_path")
else()
  set(ISOPRO_ORIGIN "$ORIGIN")
endif()
set(ISOPRO_RPATH_PROPERTIES
  BUILD_WITH_INSTALL_RPATH TRUE
  INSTALL_RPATH "${ISOPRO_ORIGIN}"
  INSTALL_RPATH_USE_LINK_PATH FALSE)

# A function, so that llama.cpp's settings and ours do not meet.
function(isopro_build_llama)
  unset(CMAKE_CXX_VISIBILITY_PRESET)
  unset(CMAKE_VISIBILITY_INLINES_HIDDEN)
  unset(CMAKE_CXX_EXTENSIONS)
  set(BUILD_SHARED_LIBS ON)
  set(GGML_OPENMP OFF)
  set(GGML_CCACHE OFF)
  # Compiled for this machine; a prebuild has to run on others, hence with a variant for each family
  # of CPUs.
  if("$ENV{ISOPRO_PREBUILD}" STREQUAL "1")
    set(GGML_NATIVE OFF)
    set(GGML_BACKEND_DL ON)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT APPLE)
      set(GGML_CPU_ALL_VARIANTS ON)
    endif()
  elseif(CMAKE_CROSSCOMPILING)
    set(GGML_NATIVE OFF)
  else()
    set(GGML_NATIVE ON)
  endif()
  set(LLAMA_BUILD_COMMON OFF)
  set(LLAMA_BUILD_NUMBER 0)
  set(LLAMA_BUILD_COMMIT "${ISOPRO_LLAMA_RELEASE}")
  # As node-llama-cpp names and links them, so that a process that loads both has one copy.
  set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH TRUE)
  set(CMAKE_INSTALL_RPATH "${ISOPRO_ORIGIN}")
  add_subdirectory("${ISOPRO_LLAMA_SOURCE}" "${CMAKE_BINARY_DIR}/llama-build" EXCLUDE_FROM_ALL)
  set_target_properties(llama PROPERTIES OUTPUT_NAME "llama.${ISOPRO_LLAMA_RELEASE}")
  set_target_properties(ggml PROPERTIES OUTPUT_NAME "ggml.${ISOPRO_LLAMA_RELEASE}")
endfunction()

if(ISOPRO_FROM_SOURCE)
  isopro_build_llama()
  set(ISOPRO_LLAMA_LIBRARIES "$<TARGET_FILE_DIR:llama>")
  target_link_libraries(isopro_llama INTERFACE llama ggml ggml-base)
  target_link_libraries(isopro_ggml INTERFACE ggml-base)
else()
  file(GLOB ISOPRO_LINK_LIBRARIES
    "${ISOPRO_LLAMA_LIBRARIES}/libllama.*" "${ISOPRO_LLAMA_LIBRARIES}/libggml.*" "${ISOPRO_LLAMA_LIBRARIES}/libggml-base.*"
    "${ISOPRO_LLAMA_LIBRARIES}/llama*.lib" "${ISOPRO_LLAMA_LIBRARIES}/ggml*.lib")
  if(ISOPRO_LINK_LIBRARIES STREQUAL "")
    message(FATAL_ERROR "isopro-native: no libllama in ${ISOPRO_LLAMA_LIBRARIES}; reinstall node-llama-cpp")
  endif()
  target_link_libraries(isopro_llama INTERFACE ${ISOPRO_LINK_LIBRARIES})
  list(FILTER ISOPRO_LINK_LIBRARIES INCLUDE REGEX "ggml-base[^/]*$")
  target_link_libraries(isopro_ggml INTERFACE ${ISOPRO_LINK_LIBRARIES})
endif()

function(isopro_copy_llama_libraries target)
  # Hard links where the file system allows it: the loader then sees node-llama-cpp's libraries and
  # ours as one file.
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND node "${CMAKE_CURRENT_SOURCE_DIR}/scripts/copy-libraries.mjs"
      "${ISOPRO_LLAMA_LIBRARIES}" "$<TARGET_FILE_DIR:${target}>"
    VERBATIM)
endfunction()
