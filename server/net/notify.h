/* notify.h - reports the state of the daemon to the service manager, by the protocol of
 * sd_notify(3). */
#ifndef SERVER_NET_NOTIFY_H
#define SERVER_NET_NOTIFY_H

/* Sends a state, like "READY=1\nSTATUS=serving", to the socket $NOTIFY_SOCKET. Does nothing if the
 * variable is not set or no process listens on the socket. Never blocks. Any thread. */
void notify_send(const char *state);

#endif
