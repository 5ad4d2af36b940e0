# variant.cpp, once for each instruction set of the platform. dispatch.cpp chooses at run time.
# Function isopro_use_kernels(target): adds them all to a target.
set(ISOPRO_KERNEL_VARIANTS)
set(ISOPRO_PRODUCT_VARIANTS)
include(CheckCXXCompilerFlag)

# Contraction is what makes a * b + c one fused operation; it is off by default in ISO mode.
macro(isopro_kernel_variant name)
  add_library(isopro_kernels_${name} OBJECT native/kernels/variant.cpp)
  target_include_directories(isopro_kernels_${name} PRIVATE native)
  target_link_libraries(isopro_kernels_${name} PRIVATE isopro_llama_headers)
  target_compile_definitions(isopro_kernels_${name} PRIVATE ISOPRO_VARIANT=${name} ISOPRO_VARIANT_NAME="${name}")
  target_compile_options(isopro_kernels_${name} PRIVATE -O3 -ffp-contract=fast -Wall -Wextra -Werror ${ARGN})
  list(APPEND ISOPRO_KERNEL_VARIANTS ${name})
endmacro()

# The same of the kernels that sampling uses, whose bits are the same on all: nothing is contracted
# but what says so. GCC 12 takes the undefined registers of its own avx512fintrin.h for ours (bug
# 105593).
macro(isopro_product_variant name)
  add_library(isopro_products_${name} OBJECT native/kernels/block_product.cpp
    native/kernels/attention_rows.cpp)
  if(NOT ${name} STREQUAL "neon")  # not written for it
    target_sources(isopro_products_${name} PRIVATE native/kernels/row_operations.cpp)
  endif()
  target_include_directories(isopro_products_${name} PRIVATE native)
  target_compile_definitions(isopro_products_${name} PRIVATE ISOPRO_VARIANT=${name} ISOPRO_VARIANT_NAME="${name}")
  target_compile_options(isopro_products_${name} PRIVATE -O3 -ffp-contract=off -Wall -Wextra -Werror
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-psabi;-Wno-uninitialized;-Wno-maybe-uninitialized>" ${ARGN})
  list(APPEND ISOPRO_PRODUCT_VARIANTS ${name})
endmacro()

isopro_kernel_variant(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64" AND NOT CMAKE_OSX_ARCHITECTURES MATCHES "arm64")
  isopro_kernel_variant(avx2 -mavx2 -mfma -mf16c)
  isopro_kernel_variant(avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  isopro_product_variant(avx2 -mavx2 -mfma -mf16c)
  isopro_product_variant(avx512vnni -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
  # Where the products go through a BLAS, bf16 has no way in (gemm.cpp).
  check_cxx_compiler_flag(-mavx512bf16 ISOPRO_COMPILES_AVX512BF16)
  if(ISOPRO_COMPILES_AVX512BF16 AND NOT APPLE AND NOT ISOPRO_TEST_BLAS)
    add_library(isopro_bf16_product OBJECT native/kernels/bf16_product.cpp)
    target_include_directories(isopro_bf16_product PRIVATE native)
    target_link_libraries(isopro_bf16_product PRIVATE isopro_llama_headers)
    target_compile_options(isopro_bf16_product PRIVATE -O3 -Wall -Wextra -Werror
      -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16
      "$<$<CXX_COMPILER_ID:GNU>:-Wno-psabi;-Wno-uninitialized;-Wno-maybe-uninitialized>")
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND NOT MSVC)
  isopro_product_variant(neon -march=armv8.2-a+dotprod)
endif()

function(isopro_use_kernels target)
  if(APPLE)
    target_compile_definitions(${target} PUBLIC ISOPRO_BLAS)
    target_link_libraries(${target} PUBLIC "-framework Accelerate")
  elseif(ISOPRO_TEST_BLAS)
    target_compile_definitions(${target} PUBLIC ISOPRO_BLAS)
    target_link_libraries(${target} PUBLIC openblas)
  endif()
  foreach(name IN LISTS ISOPRO_KERNEL_VARIANTS)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:isopro_kernels_${name}>)
    target_compile_definitions(${target} PRIVATE ISOPRO_KERNELS_${name})
  endforeach()
  foreach(name IN LISTS ISOPRO_PRODUCT_VARIANTS)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:isopro_products_${name}>)
    target_compile_definitions(${target} PRIVATE ISOPRO_PRODUCTS_${name})
  endforeach()
  if(TARGET isopro_bf16_product)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:isopro_bf16_product>)
    target_compile_definitions(${target} PRIVATE ISOPRO_BF16_PRODUCT)
  endif()
endfunction()
