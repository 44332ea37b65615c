# The runtime of this clone, for find_package(tvmrt):
#
#   vcpkg install tvmrt --overlay-ports=packaging/vcpkg/ports
#
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
# The CMake package stays next to the library that it names.
set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
vcpkg_configure_meson(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -Dpython=disabled -Dtests=disabled -Dplugins=standalone
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
     "${CURRENT_PACKAGES_DIR}/debug/lib/cmake"
)
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
