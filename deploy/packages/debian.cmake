# What the Debian packages have besides the lists of files.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# The symbols for debuggers are in packages *-dbgsym. CPack takes them from programs that are not stripped yet.
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
set(CPACK_STRIP_FILES OFF)
set(CPACK_POST_BUILD_SCRIPTS ${package_source}/debian/dbgsym.cmake)

set(CPACK_DEBIAN_DAEMON_PACKAGE_NAME ${daemon_name})
set(CPACK_DEBIAN_GEMMCTL_PACKAGE_NAME gemmctl)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libgemmd${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgemmd-dev)
set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION net)
set(CPACK_DEBIAN_GEMMCTL_PACKAGE_SECTION net)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS adduser)
# The daemon loads libcurl at run time, for --otlp-endpoint alone.
set(CPACK_DEBIAN_DAEMON_PACKAGE_RECOMMENDS "gemmctl, libcurl3-gnutls | libcurl4")

# A program that is linked with the library depends on the first version that has all symbols which the program uses.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
find_program(GENSYMBOLS dpkg-gensymbols REQUIRED)
install(CODE "execute_process(COMMAND ${GENSYMBOLS} -c4 -v${package_version} -plibgemmd${PROJECT_VERSION_MAJOR}
  -P\$ENV{DESTDIR} -I${package_source}/debian/symbols -O${package_made}/symbols COMMAND_ERROR_IS_FATAL ANY)"
        COMPONENT library)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${package_source}/debian/triggers ${package_made}/symbols)

file(WRITE ${package_made}/conffiles "${CMAKE_INSTALL_FULL_SYSCONFDIR}/gemmd/gemmd.json\n")
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA ${package_made}/conffiles
    ${package_source}/debian/postinst ${package_source}/debian/prerm ${package_source}/debian/postrm)

# Debian wants compressed manual pages.
find_program(GZIP gzip REQUIRED)
file(GLOB gemmctl_pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/client/man
     ${PROJECT_SOURCE_DIR}/client/man/gemmctl*.1)
list(TRANSFORM gemmctl_pages PREPEND gemmctl:man1/)
foreach(page daemon:man8/gemmd.8 ${gemmctl_pages} development:man3/libgemmd.3)
  string(REPLACE ":" ";" page ${page})
  list(GET page 0 component)
  list(GET page 1 file)
  set(file "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/${file}")
  install(CODE "execute_process(COMMAND ${GZIP} -9nf \"${file}\" COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT ${component})
endforeach()

# Debian wants a licence and a changelog from every package, and the project's own changelog under this name.
set(changelog ${package_made}/changelog.Debian)
file(WRITE ${changelog}
"gemmd (${package_version}-${CPACK_DEBIAN_PACKAGE_RELEASE}) stable; urgency=medium

  * /usr/share/doc/gemmd/changelog.gz lists the changes.

 -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 2026 00:00:00 +0000
")
execute_process(COMMAND ${GZIP} -9nkf ${changelog} COMMAND_ERROR_IS_FATAL ANY)
set(file "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/gemmd")
install(CODE "file(RENAME \"${file}/CHANGELOG.md\" \"${file}/changelog\")
execute_process(COMMAND ${GZIP} -9nf \"${file}/changelog\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT daemon)

# What lintian finds and is meant to be so.
set(override_all "# The packages are not uploaded to Debian, which has no bug for them.\ninitial-upload-closes-no-bugs\n")
set(override_daemon "# At an upgrade the daemon gets SIGUSR2, which deb-systemd-invoke cannot send.
maintainer-script-calls-systemctl\n")
set(override_library "# CPack writes these scripts for every shared library.\nmaintscript-calls-ldconfig\n")
foreach(component daemon gemmctl library development)
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_DESCRIPTION "${summary_${component}}\n${text_${component}}")
  set(package ${CPACK_DEBIAN_${name}_PACKAGE_NAME})
  file(WRITE ${package_made}/overrides/${package} "${override_all}${override_${component}}")
  install(FILES ${package_source}/debian/copyright ${changelog}.gz DESTINATION share/doc/${package}
          COMPONENT ${component})
  install(FILES ${package_made}/overrides/${package} DESTINATION share/lintian/overrides COMPONENT ${component})
endforeach()
