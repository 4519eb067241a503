# Writes the page as C: cmake -DTARGET= -P this.
set(folder ${CMAKE_CURRENT_LIST_DIR})
set(name docs)
# One script, in this order.
set(scripts dom schema example numbers operand body answer curl try operation main)
include(${folder}/../embed_page.cmake)
