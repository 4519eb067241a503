# Writes SOURCE's bytes as a string into the C file TARGET: cmake -DSOURCE= -DTARGET= -P this.
file(READ ${SOURCE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
file(WRITE ${TARGET} "#include \"proto/openapi.h\"

const char openapi_json[] = \"${bytes}\";
const size_t openapi_json_length = sizeof openapi_json - 1;
")
