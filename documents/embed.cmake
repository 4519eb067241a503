# Writes the completion scripts of SOURCE into the C file TARGET: cmake -DSOURCE= -DTARGET= -P this.

set(text "#include \"client/gemmctl/completion_scripts.h\"\n\nconst struct completion_script completion_scripts[] = {\n")
foreach(script "bash;gemmctl.bash" "zsh;_gemmctl" "fish;gemmctl.fish")
  list(GET script 0 shell)
  list(GET script 1 name)
  file(READ ${SOURCE}/${name} bytes HEX)
  # Escapes of three octal or two hexadecimal digits end where the next begins.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(APPEND text "    {\"${shell}\", \"${bytes}\"},\n")
endforeach()
string(APPEND text "    {0},\n};\n")
file(WRITE ${TARGET} "${text}")
