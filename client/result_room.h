/*
 * result_room.h - memory for a result: the caller's buffer, or one that the library allocates.
 */
#ifndef CLIENT_RESULT_ROOM_H
#define CLIENT_RESULT_ROOM_H

#include "client/client.h"

/* Makes room for `bytes` in `place`. A buffer of the caller's must be large enough; where there is
 * none, one is allocated. GEMMD_ERR_USAGE or GEMMD_ERR_OUT_OF_MEMORY, in request->error too. */
enum gemmd_error result_room(struct gemmd_request *request, struct place *place, uint64_t bytes);

#endif
