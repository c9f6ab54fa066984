// SPDX-License-Identifier: GPL-2.0
/*
 * Where the traffic ends: `NODE PORT`, both families.  Connections are read to their end;
 * datagrams fill their socket's buffer once and are dropped there.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stress.h"

#define EVENTS 64

static int bound(int type, in_port_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const void *)&any, sizeof(any)))
		die("sink: port %u: %m", port);
	return fd;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("sink: epoll_ctl: %m");
}

static void accept_all(int epoll, int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		watch(epoll, fd);
}

/* Read what has come; close at the end. */
static void drain(struct step *step, int fd)
{
	static char buffer[65536];
	ssize_t n = recv(fd, buffer, sizeof(buffer), 0);

	if (n > 0) {
		step->bytes += n;
		return;
	}
	step->done += n == 0;
	step->refused += n < 0;
	close(fd);
}

void sink(struct step *step)
{
	struct epoll_event events[EVENTS];
	char text[MAX_LINE], *words[MAX_WORDS];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int listener;

	snprintf(text, sizeof(text), "%s", step->text);
	if (split(text, words) != 2)
		die("sink: '%s' is not NODE PORT", step->text);
	enter_node(words[0]);
	bound(SOCK_DGRAM, strtoul(words[1], NULL, 10));
	listener = bound(SOCK_STREAM, strtoul(words[1], NULL, 10));
	if (listen(listener, 256))
		die("sink: listen: %m");
	watch(epoll, listener);
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				accept_all(epoll, listener);
			else
				drain(step, events[i].data.fd);
		}
	}
}
