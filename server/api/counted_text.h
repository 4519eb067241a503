/*
 * counted_text.h - sends texts whose length depends on how much a client has made, such as lists of
 * tensors. While a long text is sent, it counts against the limits on accepted requests and their
 * bytes, as results do. Clients that never read such answers can therefore not take the host's
 * memory.
 */
#ifndef SERVER_API_COUNTED_TEXT_H
#define SERVER_API_COUNTED_TEXT_H

struct headers;
struct request;

/* Answers with a text and `headers`, or refuses the request if the limits have no room for the
 * text. If `headers` is NULL, the only header is Content-Type: application/json. `text` was
 * allocated with malloc, and respond_counted_text takes it over. If `text` is NULL, memory has run
 * out, and the client gets 503. On the request's I/O thread. */
void respond_counted_text(struct request *request, const struct headers *headers, char *text);

#endif
