# For cmake --toolchain: compiles for arm64 on Debian for x86-64, with the packages crossbuild-essential-arm64 and, of
# architecture arm64, those of the libraries. Programs that the build or its tests run are run by qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu /usr)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
find_program(EMULATOR NAMES qemu-aarch64-static qemu-aarch64)
if(EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${EMULATOR})
endif()
