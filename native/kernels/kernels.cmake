# variant.cpp, once for each instruction set of the platform. dispatch.cpp chooses at run time.
list(REMOVE_ITEM ISOPRO_CORE_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/native/kernels/variant.cpp")
get_target_property(ISOPRO_SOURCES isopro_core SOURCES)
list(REMOVE_ITEM ISOPRO_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/native/kernels/variant.cpp")
set_target_properties(isopro_core PROPERTIES SOURCES "${ISOPRO_SOURCES}")

# Contraction is what makes a * b + c one fused operation; it is off by default in ISO mode.
function(isopro_kernel_variant name)
  add_library(isopro_kernels_${name} OBJECT native/kernels/variant.cpp)
  target_include_directories(isopro_kernels_${name} PRIVATE native)
  target_link_libraries(isopro_kernels_${name} PRIVATE isopro_llama)
  target_compile_definitions(isopro_kernels_${name} PRIVATE ISOPRO_VARIANT=${name} ISOPRO_VARIANT_NAME="${name}")
  target_compile_options(isopro_kernels_${name} PRIVATE -O3 -ffp-contract=fast -Wall -Wextra -Werror ${ARGN})
  target_sources(isopro_core PRIVATE $<TARGET_OBJECTS:isopro_kernels_${name}>)
  target_compile_definitions(isopro_core PRIVATE ISOPRO_KERNELS_${name})
endfunction()

isopro_kernel_variant(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64" AND NOT CMAKE_OSX_ARCHITECTURES MATCHES "arm64")
  isopro_kernel_variant(avx2 -mavx2 -mfma -mf16c)
  isopro_kernel_variant(avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
endif()
