# Debian and RPM packages by CPack, from the lists of files that `install` has in every room:
#
#   gemmd         component daemon: the daemon, its manual, its units (gemmd-cuda with CUDA)
#   gemmctl       component gemmctl: the command line, for hosts without the daemon, too
#   libgemmd0     component library: the shared library (gemmd-libs in RPM)
#   libgemmd-dev  component development: headers, CMake and pkg-config files (gemmd-devel in RPM)
#
# The presets `deb` and `rpm` set the prefix /usr; deploy/packages/README.md says how to use them.
set(GEMMD_PACKAGES "" CACHE STRING "Packages that this build is for: DEB, RPM or empty")
set_property(CACHE GEMMD_PACKAGES PROPERTY STRINGS "" DEB RPM)
if(NOT GEMMD_PACKAGES)
  return()
endif()
set(package_source ${PROJECT_SOURCE_DIR}/deploy/packages)
set(units_source ${PROJECT_SOURCE_DIR}/deploy/systemd)
set(package_made ${PROJECT_BINARY_DIR}/package)

# A commit changes the version, so a build after the commit configures again.
set(version_script ${PROJECT_SOURCE_DIR}/deploy/release/version.sh)
execute_process(COMMAND ${version_script} package OUTPUT_VARIABLE package_version
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${version_script})
if(EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND git rev-parse --path-format=absolute --git-path logs/HEAD OUTPUT_VARIABLE heads
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(EXISTS "${heads}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${heads})
  endif()
endif()

# Symbols for debuggers name the sources as if they lay in /usr/src/gemmd, so that no byte depends on the build's folder.
target_compile_options(gemmd_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-g
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}=/usr/src/gemmd -ffile-prefix-map=${PROJECT_BINARY_DIR}=/usr/src/gemmd/build>)

foreach(unit gemmd.service gemmd.socket)
  if(EXISTS ${units_source}/${unit})
    install(FILES ${units_source}/${unit} DESTINATION lib/systemd/system COMPONENT daemon)
  endif()
endforeach()
foreach(kind sysusers tmpfiles)
  foreach(source ${units_source}/gemmd.${kind} ${units_source}/${kind}.d/gemmd.conf)
    if(EXISTS ${source})
      install(FILES ${source} DESTINATION lib/${kind}.d RENAME gemmd.conf COMPONENT daemon)
    endif()
  endforeach()
endforeach()
set(config_file ${units_source}/gemmd.json)
if(NOT EXISTS ${config_file})
  set(config_file ${package_source}/gemmd.json)
endif()
install(FILES ${config_file} DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/gemmd RENAME gemmd.json
        COMPONENT daemon)

set(CPACK_GENERATOR ${GEMMD_PACKAGES})
set(CPACK_PACKAGE_NAME gemmd)
set(CPACK_PACKAGE_VENDOR "gemmd")
foreach(name maintainer repository)
  file(STRINGS ${PROJECT_SOURCE_DIR}/deploy/release/addresses.txt ${name} REGEX "^${name}=")
  string(REPLACE "${name}=" "" ${name} "${${name}}")
endforeach()
set(GEMMD_PACKAGE_CONTACT ${maintainer} CACHE STRING "Name and mail address of whoever maintains the packages")
set(CPACK_PACKAGE_CONTACT ${GEMMD_PACKAGE_CONTACT})
set(CPACK_PACKAGE_HOMEPAGE_URL ${repository})
# Every package has a summary of its own.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_PACKAGE_VERSION ${package_version})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_COMPONENTS_ALL daemon gemmctl library development)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_GEMMCTL_DEPENDS library)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(summary_daemon "matrix products and other tensor operations over HTTP, on a GPU or CPU")
set(summary_gemmctl "command line for a gemmd daemon")
set(summary_library "client library for a gemmd daemon")
set(summary_development "headers and build files of libgemmd")
set(text_daemon "The daemon owns the GPU of a host, or computes on its CPU, and answers matrix\nproducts and other tensor operations that programs send with HTTP requests.")
set(text_gemmctl "gemmctl sends matrices to a gemmd daemon, keeps tensors on the daemon, makes\njobs, and measures how fast the daemon answers.")
set(text_library "libgemmd sends operands to a gemmd daemon without copying them, and repeats\nrequests that the daemon refused for a while.")
set(text_development "This package holds what is needed to build a program that uses libgemmd.")

set(daemon_name gemmd)
if(GEMMD_HAVE_CUDA)
  # The two flavours of the daemon hold the same files, so that one takes the place of the other.
  set(daemon_name gemmd-cuda)
  set(CPACK_DEBIAN_DAEMON_PACKAGE_PROVIDES gemmd)
  set(CPACK_DEBIAN_DAEMON_PACKAGE_CONFLICTS gemmd)
  set(CPACK_DEBIAN_DAEMON_PACKAGE_REPLACES gemmd)
  set(CPACK_RPM_daemon_PACKAGE_PROVIDES gemmd)
  set(CPACK_RPM_daemon_PACKAGE_CONFLICTS gemmd)
endif()

if(GEMMD_PACKAGES STREQUAL "DEB")
  include(${package_source}/debian.cmake)
else()
  include(${package_source}/rpm.cmake)
endif()
include(CPack)
