// SPDX-License-Identifier: GPL-2.0
/*
 * tcpf-users - closed-loop users: each thinks, fetches a file over a new TCP
 * connection, waits for its end, and thinks again.
 *
 * A user is a thread of the sender.  In a User-Mode Linux guest a system call
 * costs a ptrace round trip, so a transfer of any size makes ten of them here
 * and three at the receiver, whose threads sit in accept() or in one
 * recv(MSG_TRUNC | MSG_WAITALL) until the sender's FIN.  What happened is kept
 * in memory and written at the end.
 *
 *   tcpf-users send --connect ADDR --users N --seed S --think S --size BYTES ...
 *   tcpf-users recv --listen ADDR --users N --until S
 *   tcpf-users plan --users N --seed S --think S --size BYTES --count N ...
 *
 * User number k draws from stream k of the seed (stream.h): what it thinks and
 * fetches depends on no other user, and not on how the users are shared out.
 */
#define _GNU_SOURCE
#include "instant.h"
#include "stream.h"

#include <errno.h>
#include <getopt.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_USERS	4096
/* Mapped, and filled as they come: only what is written takes memory. */
#define MAX_RECORDS	(1 << 23)
#define CHUNK		0x7ffff000	/* the most one sendfile or recv takes */
#define THREAD_STACK	(16 * 1024)
/* The parts of struct tcp_info since Linux 6.7; older headers end before. */
#define TOTAL_RTO_OFFSET	(offsetof(struct tcp_info, tcpi_snd_wnd) + 3 * 4)

/* Where the kernel does not count them: none counted is not the same as none. */
#define UNTOLD			UINT16_MAX

enum state { THINKING, UNDERWAY, FINISHED, FAILED };

/*
 * A transfer, as it is written, in the machine's own order of bytes.  The last
 * of a user may be THINKING: no transfer, but from when to when nothing was due.
 */
struct record {
	int64_t start;		/* of connect(), ns after the epoch */
	int64_t end;		/* when the peer's FIN had come */
	uint64_t size;		/* bytes */
	uint64_t acked;		/* of them, acknowledged */
	uint32_t user;
	uint32_t number;	/* of the user's transfers, from 0 */
	uint32_t retransmissions;
	uint16_t timeouts;	/* timer expiries, SYN and back-offs too; or UNTOLD */
	uint8_t state;
	uint8_t error;		/* errno of what FAILED */
};

/* What a file of them begins with. */
struct head {
	char magic[8];
	uint32_t record_size;
	uint32_t users;
	uint64_t records;
	int64_t epoch;		/* ns, CLOCK_REALTIME: as this program was told */
};

struct user {
	struct stream stream;
	struct record current;
	int fd;			/* -1 between transfers */
	pthread_t thread;
};

struct config {
	char mode;		/* 's', 'r' or 'p' */
	union address addr;
	int port;
	int first;		/* number of the first user of this process */
	int users;
	int count;		/* transfers of each user that are only shown */
	int buffer;		/* SO_RCVBUF, bytes; 0: the kernel's */
	int64_t epoch;		/* ns, CLOCK_REALTIME */
	int64_t until;		/* ns after the epoch */
	int64_t seed;
	int64_t think;		/* mean, ns */
	int64_t spread;		/* ns over which the first thinks begin */
	int64_t size;		/* mean, bytes */
	int64_t largest;	/* bytes */
	double shape;
};

const char program_name[] = "tcpf-users";

static struct config cfg = {
	.port = 5001, .until = -1, .largest = (int64_t)1 << 40, .shape = 1.5, .count = 10,
};
static struct user users[MAX_USERS];
static struct record *records;
static uint32_t n_records;
static int payload_fd = -1, listener = -1;
static char *stacks;
/* Of records and of what each user is at; taken for good when the time is up. */
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;

static void usage(FILE *to)
{
	fprintf(to,
"usage: tcpf-users send --connect ADDR --users N --until S --seed N --think S\n"
"                       --size BYTES [--shape X] [--largest BYTES] [--spread S]\n"
"       tcpf-users recv --listen ADDR --users N --until S\n"
"       tcpf-users plan --users N --seed N --think S --size BYTES [--count N] ...\n"
"\n"
"  --epoch S        CLOCK_REALTIME second that all other times count from\n"
"                   (default: now)\n"
"  --port P         port of the receiver (default 5001)\n"
"  --first N        number of this process's first user (default 0)\n"
"  --until S        when the program ends, whatever is under way\n"
"  --seed N         of all users' streams\n"
"  --think S        mean of the time between transfers, exponential\n"
"  --size BYTES     mean of a transfer, Pareto of --shape (default 1.5),\n"
"                   none above --largest\n"
"  --spread S       the first thinks begin uniformly within this (default 0)\n"
"  --buffer BYTES   receive buffer (SO_RCVBUF)\n"
"  --count N        transfers that `plan` shows of each user (default 10)\n"
"\n"
"send writes binary records to stdout, see struct head and struct record; recv\n"
"one JSON line when it is ready; plan one JSON line for each think and size.\n");
}

/* ------------------------------------------------------------- options */

static double parse_shape(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 1 && value <= 100))
		die("--shape: '%s' is not a number above 1, up to 100", text);
	return value;
}

static void parse_option(int opt, char *arg)
{
	switch (opt) {
	case 'c': cfg.addr = parse_address(arg, "--connect"); break;
	case 'l': cfg.addr = parse_address(arg, "--listen"); break;
	case 'e': cfg.epoch = parse_seconds(arg, "--epoch"); break;
	case 'p': cfg.port = parse_count(arg, "--port", 65535); break;
	case 'f': cfg.first = parse_count(arg, "--first", 65535); break;
	case 'n': cfg.users = parse_count(arg, "--users", MAX_USERS); break;
	case 'u': cfg.until = parse_seconds(arg, "--until"); break;
	case 's': cfg.seed = parse_number(arg, "--seed", INT64_MAX); break;
	case 't': cfg.think = parse_seconds(arg, "--think"); break;
	case 'z': cfg.size = parse_number(arg, "--size", (int64_t)1 << 40); break;
	case 'a': cfg.shape = parse_shape(arg); break;
	case 'L': cfg.largest = parse_number(arg, "--largest", (int64_t)1 << 40); break;
	case 'S': cfg.spread = parse_seconds(arg, "--spread"); break;
	case 'b': cfg.buffer = parse_count(arg, "--buffer", 1 << 30); break;
	case 'N': cfg.count = parse_count(arg, "--count", 1 << 20); break;
	default: usage(stderr); exit(2);
	}
}

static void require_options(void)
{
	if (cfg.mode != 'p' && !cfg.addr.any.sa_family)
		die("%s is missing", cfg.mode == 's' ? "--connect" : "--listen");
	if (!cfg.users)
		die("--users is missing");
	if (cfg.mode != 'p' && cfg.until < 0)
		die("--until is missing: without it the program would never end");
	if (cfg.mode != 'r' && !cfg.size)
		die("--size is missing");
	if (cfg.mode != 'r' && !cfg.think)
		die("--think is missing");
}

static void parse_command_line(int argc, char **argv)
{
	static const struct option options[] = {
		{ "connect", required_argument, NULL, 'c' },
		{ "listen", required_argument, NULL, 'l' },
		{ "epoch", required_argument, NULL, 'e' },
		{ "port", required_argument, NULL, 'p' },
		{ "first", required_argument, NULL, 'f' },
		{ "users", required_argument, NULL, 'n' },
		{ "until", required_argument, NULL, 'u' },
		{ "seed", required_argument, NULL, 's' },
		{ "think", required_argument, NULL, 't' },
		{ "size", required_argument, NULL, 'z' },
		{ "shape", required_argument, NULL, 'a' },
		{ "largest", required_argument, NULL, 'L' },
		{ "spread", required_argument, NULL, 'S' },
		{ "buffer", required_argument, NULL, 'b' },
		{ "count", required_argument, NULL, 'N' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))) {
		usage(stdout);
		exit(0);
	}
	if (argc < 2 || (strcmp(argv[1], "send") && strcmp(argv[1], "recv") &&
			 strcmp(argv[1], "plan"))) {
		usage(stderr);
		exit(2);
	}
	cfg.mode = argv[1][0];
	while ((opt = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1)
		parse_option(opt, optarg);
	if (optind < argc - 1)
		die("'%s' is not an option", argv[optind + 1]);
	require_options();
	set_port(&cfg.addr, cfg.port);
}

/* --------------------------------------------------------------- draws */

/* The order of the draws is fixed: one start, then think and size in turn. */
static int64_t draw_start(struct user *u)
{
	return (int64_t)((1 - stream_unit(&u->stream)) * (double)cfg.spread);
}

static int64_t draw_think(struct user *u)
{
	return (int64_t)stream_exponential(&u->stream, (double)cfg.think);
}

static uint64_t draw_size(struct user *u)
{
	double size = stream_pareto(&u->stream, (double)cfg.size, cfg.shape);

	if (size >= (double)cfg.largest)
		return (uint64_t)cfg.largest;
	return size < 1 ? 1 : (uint64_t)size;
}

static void begin_users(void)
{
	for (int i = 0; i < cfg.users; i++) {
		users[i].fd = -1;
		users[i].current.user = (uint32_t)(cfg.first + i);
		stream_begin(&users[i].stream, (uint64_t)cfg.seed,
			     users[i].current.user);
	}
}

static void show_plan(void)
{
	for (int i = 0; i < cfg.users; i++) {
		int64_t start = draw_start(&users[i]);

		for (int k = 0; k < cfg.count; k++) {
			int64_t think = draw_think(&users[i]);
			uint64_t size = draw_size(&users[i]);

			printf("{\"user\":%d,\"number\":%d,\"start_ns\":%lld,"
			       "\"think_ns\":%lld,\"size\":%llu}\n", cfg.first + i, k,
			       (long long)start, (long long)think,
			       (unsigned long long)size);
		}
	}
}

/* ------------------------------------------------------------- threads */

static void spawn(int i, void *(*body)(void *))
{
	start_thread(&users[i].thread, stacks + (size_t)i * THREAD_STACK, THREAD_STACK,
		     body, &users[i], cfg.first + i);
}

/* ------------------------------------------------------------- senders */

static void keep(const struct record *r)
{
	if (n_records < MAX_RECORDS)
		records[n_records] = *r;
	n_records++;
}

static void read_info(int fd, struct record *r)
{
	union {
		struct tcp_info info;
		char bytes[TOTAL_RTO_OFFSET + 8];
	} buffer;
	socklen_t len = sizeof(buffer);
	uint64_t acked;

	memset(&buffer, 0, sizeof(buffer));
	r->timeouts = UNTOLD;
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &buffer, &len))
		return;
	acked = buffer.info.tcpi_bytes_acked;	/* the SYN and the FIN are bytes there */
	acked = acked ? acked - 1 : 0;
	r->acked = acked < r->size ? acked : r->size;
	r->retransmissions = buffer.info.tcpi_total_retrans;
	if (len >= sizeof(buffer.bytes))
		memcpy(&r->timeouts, buffer.bytes + TOTAL_RTO_OFFSET, sizeof(r->timeouts));
}

/* Returns 0 or the errno of what went wrong. */
static int transfer(int fd, uint64_t size)
{
	char none;
	ssize_t n;

	if (connect(fd, &cfg.addr.any, address_length(&cfg.addr)))
		return errno;
	while (size) {
		off_t offset = 0;

		n = sendfile(fd, payload_fd, &offset, size < CHUNK ? size : CHUNK);
		if (n <= 0)
			return n ? errno : EIO;
		size -= (uint64_t)n;
	}
	if (shutdown(fd, SHUT_WR))
		return errno;
	n = recv(fd, &none, 1, 0);
	return n < 0 ? errno : n ? EPROTO : 0;
}

/* From here to end_transfer() the user is at a transfer. */
static int begin_transfer(struct user *u)
{
	int fd = open_socket(cfg.addr.any.sa_family, SOCK_STREAM);

	pthread_mutex_lock(&books);
	u->fd = fd;
	u->current.start = now() - cfg.epoch;
	u->current.state = UNDERWAY;
	pthread_mutex_unlock(&books);
	return fd;
}

static void end_transfer(struct user *u, int error)
{
	struct record *r = &u->current;

	r->end = now() - cfg.epoch;
	r->error = (uint8_t)error;
	read_info(u->fd, r);
	pthread_mutex_lock(&books);
	r->state = error ? FAILED : FINISHED;
	keep(r);
	*r = (struct record){ .user = r->user, .number = r->number + 1, .start = r->end };
	u->fd = -1;
	pthread_mutex_unlock(&books);
}

static void *user_loop(void *arg)
{
	struct user *u = arg;
	int fd;

	u->current.start = draw_start(u);
	for (;;) {
		u->current.end = u->current.start + draw_think(u);
		u->current.size = draw_size(u);
		sleep_until(cfg.epoch + u->current.end);
		fd = begin_transfer(u);
		end_transfer(u, transfer(fd, u->current.size));
		close(fd);
	}
	return NULL;
}

static void start_senders(void)
{
	payload_fd = zero_file(CHUNK);
	records = mmap(NULL, sizeof(*records) * MAX_RECORDS, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (records == MAP_FAILED)
		die("room for records: %s", strerror(errno));
	for (int i = 0; i < cfg.users; i++)
		spawn(i, user_loop);
}

/* ----------------------------------------------------------- receivers */

static void *receive(void *arg)
{
	struct user *u = arg;
	ssize_t n;

	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0)
			die("accept: %s", strerror(errno));
		u->fd = fd;
		do {
			n = recv(fd, NULL, CHUNK, MSG_TRUNC | MSG_WAITALL);
		} while (n == CHUNK);
		u->fd = -1;
		close(fd);
	}
	return NULL;
}

static void start_receivers(void)
{
	listener = open_socket(cfg.addr.any.sa_family, SOCK_STREAM);
	set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	if (cfg.buffer)
		set_buffer(listener, false, cfg.buffer);
	if (bind(listener, &cfg.addr.any, address_length(&cfg.addr)) ||
	    listen(listener, cfg.users))
		die("listen on port %d: %s", cfg.port, strerror(errno));
	for (int i = 0; i < cfg.users; i++)
		spawn(i, receive);
	printf("{\"event\":\"listening\",\"port\":%d,\"users\":%d}\n", cfg.port,
	       cfg.users);
	fflush(stdout);
}

/* ----------------------------------------------------------------- end */

static void write_all(const void *data, size_t size)
{
	const char *at = data;

	while (size) {
		ssize_t n = write(STDOUT_FILENO, at, size);

		if (n <= 0)
			die("cannot write records: %s", strerror(errno));
		at += n;
		size -= (size_t)n;
	}
}

/* What every user is at goes after what was done. */
static void write_records(void)
{
	struct head head = {
		.record_size = sizeof(struct record), .users = (uint32_t)cfg.users,
		.epoch = cfg.epoch,
	};

	pthread_mutex_lock(&books);
	for (int i = 0; i < cfg.users; i++) {
		struct record last = users[i].current;

		if (last.state == UNDERWAY) {
			read_info(users[i].fd, &last);
			last.end = cfg.until;
		}
		keep(&last);
	}
	if (n_records > MAX_RECORDS)
		die("%u transfers, and room for %d only", n_records, MAX_RECORDS);
	memcpy(head.magic, "tcpuser1", sizeof(head.magic));
	head.records = n_records;
	write_all(&head, sizeof(head));
	write_all(records, n_records * sizeof(*records));
}

static void reset_connections(void)
{
	for (int i = 0; i < cfg.users; i++)
		if (users[i].fd >= 0)
			reset_on_close(users[i].fd);
}

int main(int argc, char **argv)
{
	cfg.epoch = now();
	parse_command_line(argc, argv);
	begin_users();
	if (cfg.mode == 'p') {
		show_plan();
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit(cfg.users);
	/* Of each, a page or two is ever touched: they are mapped when they are. */
	stacks = map_stacks(cfg.users, THREAD_STACK, false);
	if (cfg.mode == 's')
		start_senders();
	else
		start_receivers();
	sleep_until(cfg.epoch + cfg.until);
	if (cfg.mode == 's')
		write_records();
	/* Both ends: nothing is sent again after the end. */
	reset_connections();
	/* The threads are in the kernel; leaving the process ends them. */
	_exit(0);
}
