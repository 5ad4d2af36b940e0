# Target isopro_llama: headers, libllama, libggml and libggml-base of the pinned llama.cpp.
# Function isopro_copy_llama_libraries(target): puts every library of that build beside the target.

execute_process(
  COMMAND node "${CMAKE_CURRENT_SOURCE_DIR}/scripts/locate-llama.mjs"
  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
  OUTPUT_VARIABLE ISOPRO_LLAMA_LOCATION OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE ISOPRO_LLAMA_STATUS)
if(NOT ISOPRO_LLAMA_STATUS EQUAL 0)
  message(FATAL_ERROR "isopro-native: the llama.cpp libraries could not be located (see the line above)")
endif()
# Three lines: path of the git bundle, its release, folder of the platform's libraries (empty where there is none).
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
    "set ISOPRO_LLAMA_FROM_SOURCE=1 and install again to compile it (about 15 minutes on 2 cores)")
endif()

find_package(Git REQUIRED)
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
    COMMAND ${GIT_EXECUTABLE} -c advice.detachedHead=false clone --quiet --no-checkout "${ISOPRO_LLAMA_BUNDLE}" "${ISOPRO_LLAMA_SOURCE}"
    RESULT_VARIABLE ISOPRO_GIT_STATUS)
  if(ISOPRO_GIT_STATUS EQUAL 0)
    execute_process(
      COMMAND ${GIT_EXECUTABLE} -C "${ISOPRO_LLAMA_SOURCE}" checkout --quiet HEAD -- ${ISOPRO_LLAMA_PATHS}
      RESULT_VARIABLE ISOPRO_GIT_STATUS)
  endif()
  if(NOT ISOPRO_GIT_STATUS EQUAL 0)
    message(FATAL_ERROR "isopro-native: git could not read llama.cpp out of ${ISOPRO_LLAMA_BUNDLE}")
  endif()
  file(WRITE "${ISOPRO_LLAMA_STAMP}" "${ISOPRO_LLAMA_RELEASE}\n")
endif()

add_library(isopro_llama INTERFACE)
# SYSTEM: warnings are errors in our code, not in llama.cpp's headers.
target_include_directories(isopro_llama SYSTEM INTERFACE
  "${ISOPRO_LLAMA_SOURCE}/include" "${ISOPRO_LLAMA_SOURCE}/ggml/include")
target_compile_definitions(isopro_llama INTERFACE ISOPRO_LLAMA_RELEASE="${ISOPRO_LLAMA_RELEASE}")

if(APPLE)
  set(ISOPRO_ORIGIN "@loader_path")
else()
  set(ISOPRO_ORIGIN "$ORIGIN")
endif()
set(ISOPRO_RPATH_PROPERTIES
  BUILD_WITH_INSTALL_RPATH TRUE
  INSTALL_RPATH "${ISOPRO_ORIGIN}"
  INSTALL_RPATH_USE_LINK_PATH FALSE)

if(ISOPRO_FROM_SOURCE)
  set(BUILD_SHARED_LIBS ON)
  set(GGML_NATIVE OFF)
  set(GGML_BACKEND_DL ON)
  set(GGML_OPENMP OFF)
  set(LLAMA_BUILD_COMMON OFF)
  set(LLAMA_BUILD_TESTS OFF)
  set(LLAMA_BUILD_TOOLS OFF)
  set(LLAMA_BUILD_EXAMPLES OFF)
  set(LLAMA_BUILD_SERVER OFF)
  set(LLAMA_CURL OFF)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT APPLE)
    set(GGML_CPU_ALL_VARIANTS ON)
  endif()
  set(CMAKE_BUILD_WITH_INSTALL_RPATH TRUE)
  set(CMAKE_INSTALL_RPATH "${ISOPRO_ORIGIN}")
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/llama-libraries")
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/llama-libraries")
  add_subdirectory("${ISOPRO_LLAMA_SOURCE}" "${CMAKE_BINARY_DIR}/llama-build" EXCLUDE_FROM_ALL)
  unset(CMAKE_LIBRARY_OUTPUT_DIRECTORY)
  unset(CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(BUILD_SHARED_LIBS OFF)
  set(ISOPRO_LLAMA_LIBRARIES "${CMAKE_BINARY_DIR}/llama-libraries")
  target_link_libraries(isopro_llama INTERFACE llama ggml ggml-base)
else()
  file(GLOB ISOPRO_LINK_LIBRARIES
    "${ISOPRO_LLAMA_LIBRARIES}/libllama.*" "${ISOPRO_LLAMA_LIBRARIES}/libggml.*" "${ISOPRO_LLAMA_LIBRARIES}/libggml-base.*"
    "${ISOPRO_LLAMA_LIBRARIES}/llama*.lib" "${ISOPRO_LLAMA_LIBRARIES}/ggml*.lib")
  if(ISOPRO_LINK_LIBRARIES STREQUAL "")
    message(FATAL_ERROR "isopro-native: no libllama in ${ISOPRO_LLAMA_LIBRARIES}; reinstall node-llama-cpp")
  endif()
  target_link_libraries(isopro_llama INTERFACE ${ISOPRO_LINK_LIBRARIES})
endif()

function(isopro_copy_llama_libraries target)
  # Hard links where the file system allows it: the loader then sees node-llama-cpp's libraries and ours as one file.
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND node "${CMAKE_CURRENT_SOURCE_DIR}/scripts/copy-libraries.mjs"
      "${ISOPRO_LLAMA_LIBRARIES}" "$<TARGET_FILE_DIR:${target}>"
    VERBATIM)
  if(ISOPRO_FROM_SOURCE)
    get_property(ISOPRO_GGML_BACKENDS GLOBAL PROPERTY GGML_AVAILABLE_BACKENDS)
    foreach(backend IN LISTS ISOPRO_GGML_BACKENDS)
      if(TARGET ${backend})
        add_dependencies(${target} ${backend})
      endif()
    endforeach()
  endif()
endfunction()
