/* notify.h - tells the service manager how the daemon is: the protocol of sd_notify(3). */
#ifndef SERVER_NET_NOTIFY_H
#define SERVER_NET_NOTIFY_H

/* Sends lines like "READY=1\nSTATUS=serving" to $NOTIFY_SOCKET. Without one, or if nobody listens
 * there, nothing happens. Never blocks; any thread. */
void notify_send(const char *state);

#endif
