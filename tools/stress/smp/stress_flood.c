// SPDX-License-Identifier: GPL-2.0
/*
 * Traffic, one process each, pinned to a processor:
 *
 *   NODE udp ADDRESS PORT SOCKETS   datagrams of all sizes, codepoints and source ports
 *   NODE tcp ADDRESS PORT SOCKETS   connections that send up to 100 kB, a fourth of them reset
 *   NODE raw ADDRESS PORT 0         what no TCP would send
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stress.h"

#define MAX_SOCKETS	64
#define CHUNK		16384
#define PATIENCE	(3 * NSEC)	/* with a connection that gets nowhere */

struct connection {
	int fd;
	int32_t left;
	int64_t until;
};

static uint8_t payload[65536];

socklen_t parse_address(const char *text, in_port_t port, struct sockaddr_storage *to)
{
	struct sockaddr_in *v4 = (void *)to;
	struct sockaddr_in6 *v6 = (void *)to;

	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		die("flood: '%s' is no address", text);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = port;
	return sizeof(*v6);
}

static void pin(const char *processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(strtoul(processor, NULL, 10), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("flood: processor %s: %m", processor);
	/* Programs that change queues come first: of traffic there is enough while they wait. */
	setpriority(PRIO_PROCESS, 0, 19);
}

static void set_codepoint(int fd, int family, uint32_t chance)
{
	static const int tos[] = { 10 << 2, 12 << 2, 0 };
	const int *value = &tos[chance % 3];

	if (family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_TOS, value, sizeof(*value));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, value, sizeof(*value));
}

static int open_socket(int type, const struct sockaddr_storage *to, uint64_t *random)
{
	int fd = socket(to->ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("flood: socket: %m");
	set_codepoint(fd, to->ss_family, draw(random));
	return fd;
}

static void count(struct step *step, ssize_t sent)
{
	if (sent < 0) {
		step->refused++;
		return;
	}
	step->done++;
	step->bytes += sent;
}

static void flood_udp(struct step *step, const struct sockaddr_storage *to, socklen_t length,
		      int sockets, uint64_t random)
{
	int fds[MAX_SOCKETS];

	for (int i = 0; i < sockets; i++) {
		fds[i] = open_socket(SOCK_DGRAM, to, &random);
		if (connect(fds[i], (const void *)to, length))
			die("flood: connect: %m");
	}
	for (;;) {
		int fd = fds[draw(&random) % sockets];
		/* A few need fragments. */
		size_t size = draw(&random) % (draw(&random) % 64 ? 1400 : 5000);

		if (draw(&random) % 64 == 0)
			set_codepoint(fd, to->ss_family, draw(&random));
		count(step, send(fd, payload, size, 0));
		if (errno == EAGAIN)
			poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 10);
		errno = 0;
	}
}

static void flood_raw(struct step *step, const struct sockaddr_storage *to, socklen_t length,
		      uint64_t random)
{
	int fd = socket(to->ss_family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	struct sockaddr_storage where = *to;
	uint8_t packet[1500];

	if (fd < 0)
		die("flood: raw socket: %m");
	/* Of a raw IPv6 socket the port is the protocol. */
	if (to->ss_family == AF_INET6)
		((struct sockaddr_in6 *)&where)->sin6_port = 0;
	for (;;) {
		size_t size = make_packet(packet, to, &random);

		count(step, sendto(fd, packet, size, 0, (const void *)&where, length));
	}
}

static void open_connection(struct connection *c, const struct sockaddr_storage *to,
			    socklen_t length, uint64_t *random)
{
	struct linger reset = { .l_onoff = draw(random) % 4 == 0 };

	c->fd = open_socket(SOCK_STREAM, to, random);
	c->left = draw(random) % (draw(random) % 4 ? 10000 : 100000) + 1;
	c->until = monotonic() + PATIENCE;
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (connect(c->fd, (const void *)to, length) && errno != EINPROGRESS)
		c->left = 0;
}

/* Send what the connection takes; false if it is at its end. */
static bool advance(struct step *step, struct connection *c, short events)
{
	ssize_t sent;

	if (events & (POLLERR | POLLHUP) || !c->left || monotonic() > c->until) {
		step->refused++;
		return false;
	}
	if (!(events & POLLOUT))
		return true;
	sent = send(c->fd, payload, c->left < CHUNK ? c->left : CHUNK, MSG_NOSIGNAL);
	if (sent < 0)
		return errno == EAGAIN;
	step->bytes += sent;
	c->left -= sent;
	step->done += !c->left;
	return c->left > 0;
}

static void flood_tcp(struct step *step, const struct sockaddr_storage *to, socklen_t length,
		      int sockets, uint64_t random)
{
	struct connection connections[MAX_SOCKETS];
	struct pollfd polled[MAX_SOCKETS];

	for (int i = 0; i < sockets; i++)
		open_connection(&connections[i], to, length, &random);
	for (;;) {
		for (int i = 0; i < sockets; i++)
			polled[i] = (struct pollfd){ connections[i].fd, POLLOUT, 0 };
		poll(polled, sockets, 100);
		for (int i = 0; i < sockets; i++) {
			if (advance(step, &connections[i], polled[i].revents))
				continue;
			close(connections[i].fd);
			open_connection(&connections[i], to, length, &random);
		}
	}
}

void flood(struct step *step, uint64_t random)
{
	struct sockaddr_storage to;
	char text[MAX_LINE], *words[MAX_WORDS];
	socklen_t length;
	int sockets;

	snprintf(text, sizeof(text), "%s", step->text);
	if (split(text, words) != 5)
		die("flood: '%s' is not NODE KIND ADDRESS PORT SOCKETS", step->text);
	length = parse_address(words[2], htons(strtoul(words[3], NULL, 10)), &to);
	sockets = strtol(words[4], NULL, 10);
	pin(step->name);
	enter_node(words[0]);
	if (!strcmp(words[1], "raw"))
		flood_raw(step, &to, length, random);
	if (sockets < 1 || sockets > MAX_SOCKETS)
		die("flood: 1 to %d sockets, not %d", MAX_SOCKETS, sockets);
	if (!strcmp(words[1], "udp"))
		flood_udp(step, &to, length, sockets, random);
	if (!strcmp(words[1], "tcp"))
		flood_tcp(step, &to, length, sockets, random);
	die("flood: unknown kind '%s'", words[1]);
}
