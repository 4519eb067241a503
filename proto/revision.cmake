# Writes a C file that defines gemmd_revision, unless the file says the same already.
#   cmake -DREVISION=TEXT -DSOURCE=FOLDER -DTARGET=FILE -P revision.cmake
# An empty REVISION is asked of git; without a repository it is "unknown".
set(revision "${REVISION}")
if(NOT revision)
  execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE result)
endif()
if(NOT revision)
  set(revision "unknown")
endif()
set(text "/* Written by proto/revision.cmake. */
#include \"proto/revision.h\"

const char gemmd_revision[] = \"${revision}\";
")
set(old "")
if(EXISTS ${TARGET})
  file(READ ${TARGET} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${TARGET} "${text}")
endif()
