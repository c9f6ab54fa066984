// SPDX-License-Identifier: GPL-2.0
/* probe_datagram.c: UDP datagrams at exact instants, and when each arrived. */
#define _GNU_SOURCE
#include "probe.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define AT_ONCE		64		/* datagrams that one system call takes */
#define RECEIVE_BUFFER	(1024 * 1024)

/* What a datagram begins with, little-endian. */
struct payload {
	uint32_t number;
	uint32_t zero;
	int64_t sent_ns;	/* after the epoch */
};

struct record {
	uint32_t number;
	uint32_t zero;
	int64_t sent_ns;	/* after the epoch, by the sender's clock */
	int64_t received_ns;	/* after the epoch, by the receiver's clock */
};

static_assert(sizeof(struct record) == 24, "struct record has no padding");

/* Room for what the kernel says about a datagram: its timestamp. */
union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(struct timespec))];
};

static int fd;
static struct mmsghdr messages[AT_ONCE];
static struct payload payloads[AT_ONCE];
static struct record_file file;
static atomic_bool ending;
static int64_t received, duplicates, reordered;

void send_datagrams(void)
{
	static union {
		struct payload head;
		char bytes[LARGEST_PACKET];
	} datagram;
	size_t length = (size_t)(cfg.size - headers());
	int64_t sent = 0, errors = 0, late = 0;

	fd = open_socket(cfg.addr.any.sa_family, SOCK_DGRAM);
	set_tos(fd, cfg.addr.any.sa_family, cfg.tos);
	if (connect(fd, &cfg.addr.any, address_length(&cfg.addr)))
		die("connect: %s", strerror(errno));
	for (int64_t at = cfg.from; at < cfg.until; at += cfg.every) {
		sleep_until(cfg.epoch + at);
		datagram.head.sent_ns = now() - cfg.epoch;
		if (datagram.head.sent_ns - at > late)
			late = datagram.head.sent_ns - at;
		if (send(fd, &datagram, length, 0) < 0)
			errors++;
		else
			sent++;
		datagram.head.number++;
	}
	sleep_until(cfg.epoch + cfg.until);
	printf("{\"event\":\"end\",\"sent\":%lld,\"errors\":%lld,\"late_ns\":%lld}\n",
	       (long long)sent, (long long)errors, (long long)late);
}

/* Whether a datagram of this number had come before. */
static bool seen_before(uint32_t number)
{
	static uint8_t *seen;
	uint8_t bit = (uint8_t)(1 << number % 8);
	bool before;

	if (!seen) {
		/* A bit of each number: only what is written takes memory. */
		seen = mmap(NULL, (size_t)1 << 29, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (seen == MAP_FAILED)
			die("room for numbers: %s", strerror(errno));
	}
	before = seen[number / 8] & bit;
	seen[number / 8] |= bit;
	return before;
}

/* Reordered: of a lower number than one that came before (RFC 4737). */
static void keep(const struct payload *p, int64_t at)
{
	struct record r = {
		.number = p->number, .sent_ns = p->sent_ns, .received_ns = at - cfg.epoch,
	};
	static uint32_t next;

	add_record(&file, &r, sizeof(r));
	received++;
	if (seen_before(p->number))
		duplicates++;
	else if (p->number < next)
		reordered++;
	else
		next = p->number + 1;
}

static int64_t timestamp_of(struct msghdr *message)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(message);
	struct timespec ts;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
		die("a datagram without a timestamp");
	memcpy(&ts, CMSG_DATA(c), sizeof(ts));
	return ts.tv_sec * NSEC + ts.tv_nsec;
}

static void prepare_messages(void)
{
	static union control controls[AT_ONCE];
	static struct iovec parts[AT_ONCE];

	for (int i = 0; i < AT_ONCE; i++) {
		parts[i] = (struct iovec){ &payloads[i], sizeof(payloads[i]) };
		messages[i] = (struct mmsghdr){ .msg_hdr = {
			.msg_iov = &parts[i], .msg_iovlen = 1, .msg_control = &controls[i],
			.msg_controllen = sizeof(controls[i]),
		} };
	}
}

/* The kernel fills in one message after the other: what came is there at any time. */
static void keep_messages(void)
{
	for (int i = 0; i < AT_ONCE; i++)
		if (messages[i].msg_len == sizeof(struct payload))
			keep(&payloads[i], timestamp_of(&messages[i].msg_hdr));
}

static void *receive(void *arg)
{
	(void)arg;
	while (!ending) {
		keep_messages();
		prepare_messages();
		if (recvmmsg(fd, messages, AT_ONCE, 0, NULL) < 0 && errno != EINTR && !ending)
			die("recvmmsg: %s", strerror(errno));
	}
	return NULL;
}

void receive_datagrams(void)
{
	pthread_t thread;

	open_records(&file, cfg.records);
	fd = open_socket(cfg.addr.any.sa_family, SOCK_DGRAM);
	set_option(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1, "SO_TIMESTAMPNS");
	set_buffer(fd, false, RECEIVE_BUFFER);
	if (bind(fd, &cfg.addr.any, address_length(&cfg.addr)))
		die("bind port %d: %s", cfg.port, strerror(errno));
	if (pthread_create(&thread, NULL, receive, NULL))
		die("cannot start the receiving thread");
	print_listening();
	sleep_until(cfg.epoch + cfg.until);
	ending = true;
	/* Ends the thread's system call, though it fails on an unconnected socket. */
	shutdown(fd, SHUT_RD);
	pthread_join(thread, NULL);
	keep_messages();
	close_records(&file);
	printf("{\"event\":\"end\",\"received\":%lld,\"duplicates\":%lld,\"reordered\":%lld}\n",
	       (long long)received, (long long)duplicates, (long long)reordered);
}
