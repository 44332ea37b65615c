# The firmware libraries as CMake targets, built from source by the including project's toolchain.
#
#   execute_process(COMMAND tvmrt config --cmake OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE)
#   include(${dir}/tvmrt-firmware-config.cmake)   # or find_package(tvmrt-firmware) with that prefix
#   target_link_libraries(app PRIVATE tvmrt::backend)
#
# tvmrt::backend   what generated code calls: libtvm_backend.a
# tvmrt::firmware  functions by name, modules, the graph executor: libtvm_firmware.a, with the other
#
# Both bring the folder of the headers. They are built when something links them.
if(TARGET tvmrt::backend)
  return()
endif()

get_filename_component(_tvmrt_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT IS_DIRECTORY "${_tvmrt_root}/src_backend") # in a clone, this folder is in packaging/
  get_filename_component(_tvmrt_root "${_tvmrt_root}/.." ABSOLUTE)
endif()

function(_tvmrt_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${ARGN})
  add_library(tvm_${name} STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(tvmrt::${name} ALIAS tvm_${name})
  target_include_directories(tvm_${name} PUBLIC "${_tvmrt_root}/include")
  set_target_properties(tvm_${name} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(tvm_${name} PRIVATE -ffunction-sections -fdata-sections)
  endif()
endfunction()

_tvmrt_library(backend "${_tvmrt_root}/src_backend/*.c")
_tvmrt_library(firmware "${_tvmrt_root}/src_runtime/firmware/*/*.c")
target_link_libraries(tvm_firmware PUBLIC tvm_backend)
