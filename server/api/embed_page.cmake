# Makes a page one document and writes it, with the hashes that its Content-Security-Policy names and
# its entity tag, into the C file TARGET, as the struct page ${name}_page. Included by the embed.cmake
# of a page's folder, which sets `name` and `scripts`, the names of the page's scripts in order.

# What a policy calls sha256-...: the digest in base64, of which three hexadecimal digits are two.
function(policy_hash file result)
  set(alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  file(SHA256 ${file} digest)
  set(base64 "")
  foreach(at RANGE 0 63 3)
    string(SUBSTRING "${digest}00" ${at} 3 digits)
    math(EXPR high "0x${digits} / 64")
    math(EXPR low "0x${digits} % 64")
    string(SUBSTRING ${alphabet} ${high} 1 high)
    string(SUBSTRING ${alphabet} ${low} 1 low)
    string(APPEND base64 ${high}${low})
  endforeach()
  string(SUBSTRING ${base64} 0 43 base64) # 32 bytes end in two thirds of a digit pair
  set(${result} "sha256-${base64}=" PARENT_SCOPE)
endfunction()

# All of it in hexadecimal: what is text to CMake loses brackets and semicolons.
function(put_in mark file)
  string(HEX ${mark} mark)
  file(READ ${file} bytes HEX)
  string(REPLACE ${mark} ${bytes} page ${page})
  set(page ${page} PARENT_SCOPE)
endfunction()

file(READ ${folder}/page.html page HEX)
set(script_file ${TARGET}.js)
file(WRITE ${script_file} "")
foreach(part ${scripts})
  file(READ ${folder}/js/${part}.js bytes)
  file(APPEND ${script_file} "${bytes}")
endforeach()
put_in(@STYLE@ ${folder}/page.css)
put_in(@SCRIPT@ ${script_file})
policy_hash(${folder}/page.css style)
policy_hash(${script_file} script)
string(SHA256 tag ${page})
string(SUBSTRING ${tag} 0 32 tag)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" page ${page})

file(WRITE ${TARGET} "#include \"server/api/page.h\"

static const char text[] = \"${page}\";
const struct page ${name}_page = {
    .text = text,
    .length = sizeof text - 1,
    .etag = \"\\\"${tag}\\\"\",
    .policy =
        \"default-src 'none'; script-src '${script}'; style-src '${style}'; \"
        \"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \"
        \"frame-ancestors 'none'\",
};
")
