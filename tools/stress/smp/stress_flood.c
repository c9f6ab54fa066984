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
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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

static size_t make_packet(uint8_t *packet, const struct sockaddr_storage *to, uint64_t *random);

static uint8_t payload[65536];

static socklen_t parse_address(const char *text, in_port_t port, struct sockaddr_storage *to)
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

/*
 * Packets that no TCP would send: any source, flags and lengths, fragments, options that lead
 * beyond their header.  A million different flows pass in a minute, none with more than a few
 * packets.
 */

/* Codepoints in and out of profile, and one that no marker wrote. */
static const uint8_t tos[] = { 10 << 2, 12 << 2, 0 };

/* One in three is another protocol than TCP. */
static uint8_t any_protocol(uint64_t *random)
{
	static const uint8_t others[] = { IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_GRE, 253 };

	return draw(random) % 3 ? IPPROTO_TCP : others[draw(random) % sizeof(others)];
}

static size_t make_ipv4(uint8_t *packet, const struct sockaddr_in *to, uint64_t *random)
{
	struct iphdr header = {
		.version = 4,
		.ihl = 5,
		.tos = tos[draw(random) % sizeof(tos)],
		.ttl = 64,
		.id = htons(draw(random)),
		.protocol = any_protocol(random),
		.saddr = htonl(0x0a090000 | (draw(random) & 0xffff)),	/* 10.9.0.0/16 */
		.daddr = to->sin_addr.s_addr,
	};

	if (draw(random) % 8 == 0)
		header.frag_off = htons((draw(random) % 2 ? IP_MF : 0) | draw(random) % 64);
	if (draw(random) % 8 == 0) {
		header.ihl = 6;
		memset(packet + sizeof(header), IPOPT_NOP, 4);
	}
	memcpy(packet, &header, sizeof(header));
	return header.ihl * 4;
}

static size_t make_ipv6(uint8_t *packet, const struct sockaddr_in6 *to, uint64_t *random)
{
	uint8_t class = tos[draw(random) % sizeof(tos)];
	struct ip6_hdr header = {
		.ip6_flow = htonl(6U << 28 | (uint32_t)class << 20 | (draw(random) & 0xfffff)),
		.ip6_nxt = any_protocol(random),
		.ip6_hlim = 64,
		.ip6_dst = to->sin6_addr,
	};
	size_t length = sizeof(header);

	inet_pton(AF_INET6, "fd09::", &header.ip6_src);
	header.ip6_src.s6_addr32[3] = draw(random);
	if (draw(random) % 8 == 0) {
		struct ip6_frag fragment = {
			.ip6f_nxt = header.ip6_nxt,
			.ip6f_offlg = htons(draw(random) & 0x1f9),
			.ip6f_ident = draw(random),
		};

		header.ip6_nxt = IPPROTO_FRAGMENT;
		memcpy(packet + length, &fragment, sizeof(fragment));
		length += sizeof(fragment);
	}
	memcpy(packet, &header, sizeof(header));
	return length;
}

/* A TCP header, or what another protocol would take for one; some are cut short. */
static size_t make_transport(uint8_t *packet, uint64_t *random)
{
	struct tcphdr header = {
		.source = htons(draw(random)),
		.dest = htons(draw(random) % 8 ? 9 : draw(random)),
		.seq = draw(random),
		.ack_seq = draw(random),
		.doff = draw(random) % 4 ? 5 : draw(random),
		.window = htons(draw(random)),
	};
	size_t length = sizeof(header) + draw(random) % 60;

	/* SYN, FIN, RST, PSH or ACK alone, or any flags at once. */
	((uint8_t *)&header)[13] = draw(random) % 4 ? 1U << draw(random) % 5 : draw(random);
	memcpy(packet, &header, sizeof(header));
	for (size_t i = sizeof(header); i < length; i++)
		packet[i] = draw(random);
	return draw(random) % 8 ? length + draw(random) % 512 : draw(random) % length;
}

/* Fill `packet`, which has 1500 bytes; return its length. */
static size_t make_packet(uint8_t *packet, const struct sockaddr_storage *to, uint64_t *random)
{
	bool v4 = to->ss_family == AF_INET;
	size_t network = v4 ? make_ipv4(packet, (const void *)to, random) :
			      make_ipv6(packet, (const void *)to, random);
	size_t length = network + make_transport(packet + network, random);

	if (!v4)
		((struct ip6_hdr *)packet)->ip6_plen = htons(length - sizeof(struct ip6_hdr));
	return length;
}

/*
 * Where the traffic ends: `NODE PORT`, both families.  Connections are read to their end;
 * datagrams fill their socket's buffer once and are dropped there.
 */

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
