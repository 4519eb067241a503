# What the RPM packages have besides the lists of files.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_AUTOREQPROV ON)
set(CPACK_RPM_MAIN_COMPONENT daemon)
set(CPACK_RPM_daemon_PACKAGE_NAME ${daemon_name})
set(CPACK_RPM_gemmctl_PACKAGE_NAME gemmctl)
set(CPACK_RPM_library_PACKAGE_NAME gemmd-libs)
set(CPACK_RPM_development_PACKAGE_NAME gemmd-devel)
set(CPACK_RPM_gemmctl_PACKAGE_REQUIRES "gemmd-libs = ${package_version}")
set(CPACK_RPM_development_PACKAGE_REQUIRES "gemmd-libs = ${package_version}")
set(CPACK_RPM_daemon_PACKAGE_REQUIRES_PRE shadow-utils)
set(CPACK_RPM_daemon_USER_FILELIST
    "%config(noreplace) ${CMAKE_INSTALL_FULL_SYSCONFDIR}/gemmd/gemmd.json")
set(CPACK_RPM_daemon_PRE_INSTALL_SCRIPT_FILE ${package_source}/rpm/pre)
set(CPACK_RPM_daemon_POST_INSTALL_SCRIPT_FILE ${package_source}/rpm/post)
set(CPACK_RPM_daemon_PRE_UNINSTALL_SCRIPT_FILE ${package_source}/rpm/preun)
set(CPACK_RPM_daemon_POST_UNINSTALL_SCRIPT_FILE ${package_source}/rpm/postun)
foreach(component daemon gemmctl library development)
  set(CPACK_RPM_${component}_PACKAGE_SUMMARY "${summary_${component}}")
  set(CPACK_RPM_${component}_PACKAGE_DESCRIPTION "${text_${component}}")
  set(folder share/licenses/${CPACK_RPM_${component}_PACKAGE_NAME})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${folder} COMPONENT ${component})
  list(APPEND CPACK_RPM_${component}_USER_FILELIST "%license ${CMAKE_INSTALL_PREFIX}/${folder}/LICENSE")
endforeach()
# Directories that the distribution's own packages hold.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/systemd /usr/lib/systemd/system
    /usr/lib/sysusers.d /usr/lib/tmpfiles.d /usr/share/man /usr/share/man/man1 /usr/share/man/man3
    /usr/share/man/man8 /usr/share/bash-completion /usr/share/bash-completion/completions
    /usr/share/licenses /usr/share/zsh /usr/share/zsh/site-functions /usr/share/fish
    /usr/share/fish/vendor_completions.d /usr/lib64/cmake /usr/lib64/pkgconfig /etc)
# The same bytes from every build: no name of the build host, no time but SOURCE_DATE_EPOCH. The symbols for debuggers are
# in packages *-debuginfo. CPACK_RPM_DEBUGINFO_PACKAGE makes none, as no source lies where the symbols say (/usr/src/gemmd):
# RPM's own macro makes them, of programs and libraries that may be executed and are not stripped yet.
find_program(EU_STRIP eu-strip REQUIRED) # find-debuginfo calls this program of elfutils
set(CPACK_STRIP_FILES OFF)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define __brp_mangle_shebangs %{nil}
%if \\\"%{name}\\\" != \\\"gemmd-devel\\\"
%{debug_package}
%endif")
