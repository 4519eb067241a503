# Writes the page as C: cmake -DTARGET= -P this.
set(folder ${CMAKE_CURRENT_LIST_DIR})
set(name dashboard)
# One script, in this order.
set(scripts format plot daemon charts health roofline requests stores gpu counters try tiles main)
include(${folder}/../embed_page.cmake)
