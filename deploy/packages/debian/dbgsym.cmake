# Run by CPack after it has made the packages: CPack 3.25 writes the paths of the build's folder into the md5sums of
# packages of symbols, where dpkg expects paths from the root.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  if(package MATCHES "\\.ddeb$")
    set(folder ${package}.folder)
    execute_process(COMMAND dpkg-deb --raw-extract ${package} ${folder} COMMAND_ERROR_IS_FATAL ANY)
    file(READ ${folder}/DEBIAN/md5sums sums)
    string(REGEX REPLACE "  [^\n]*-dbgsym/usr/" "  usr/" sums "${sums}")
    file(WRITE ${folder}/DEBIAN/md5sums "${sums}")
    # The bytes of xz depend on the number of threads.
    execute_process(COMMAND dpkg-deb --threads-max=1 -Zxz --root-owner-group --build ${folder} ${package}
                    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE_RECURSE ${folder})
  endif()
endforeach()
