// SPDX-License-Identifier: GPL-2.0
/* instant.c: see instant.h. */
#define _GNU_SOURCE
#include "instant.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RECORD_BLOCK	(256 * 1024)

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little-endian"
#endif

void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(2);
}

/* -------------------------------------------------------------- words */

int64_t parse_seconds(const char *text, const char *what)
{
	int64_t seconds = 0, ns = 0, unit = NSEC;
	const char *c = text;

	for (; *c >= '0' && *c <= '9' && seconds < INT32_MAX; c++)
		seconds = seconds * 10 + (*c - '0');
	if (*c == '.' && c > text)
		for (c++; *c >= '0' && *c <= '9' && unit > 1; c++)
			ns += (*c - '0') * (unit /= 10);
	if (c == text || *c)
		die("%s: '%s' is not a number of seconds", what, text);
	return seconds * NSEC + ns;
}

int64_t parse_number(const char *text, const char *what, int64_t max)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || value < 0 || value > max)
		die("%s: '%s' is not a number from 0 to %lld", what, text,
		    (long long)max);
	return value;
}

int parse_count(const char *text, const char *what, int max)
{
	return (int)parse_number(text, what, max);
}

int parse_samples(char *text, struct sample *samples)
{
	char *item;
	int n = 0;

	while ((item = strsep(&text, ","))) {
		char *at = strchr(item, '=');

		if (!at)
			die("--sample: '%s' is not LABEL=SECONDS", item);
		if (n == MAX_SAMPLES)
			die("--sample: more than %d samples", MAX_SAMPLES);
		*at = 0;
		samples[n].label = item;
		samples[n].at = parse_seconds(at + 1, "--sample");
		if (n && samples[n].at < samples[n - 1].at)
			die("--sample: '%s' is earlier than the one before", item);
		n++;
	}
	return n;
}

union address parse_address(const char *text, const char *what)
{
	union address addr = any_address(strchr(text, ':') ? AF_INET6 : AF_INET);
	void *bytes = &addr.v4.sin_addr;

	if (addr.any.sa_family == AF_INET6)
		bytes = &addr.v6.sin6_addr;
	if (inet_pton(addr.any.sa_family, text, bytes) != 1)
		die("%s: '%s' is not an IPv4 or IPv6 address", what, text);
	return addr;
}

/* ----------------------------------------------------------- addresses */

union address any_address(int family)
{
	union address addr;

	memset(&addr, 0, sizeof(addr));
	addr.any.sa_family = (sa_family_t)family;
	return addr;
}

void set_port(union address *addr, int port)
{
	if (addr->any.sa_family == AF_INET6)
		addr->v6.sin6_port = htons((uint16_t)port);
	else
		addr->v4.sin_port = htons((uint16_t)port);
}

int port_of(const union address *addr)
{
	return ntohs(addr->any.sa_family == AF_INET6 ? addr->v6.sin6_port :
						       addr->v4.sin_port);
}

socklen_t address_length(const union address *addr)
{
	return addr->any.sa_family == AF_INET6 ? sizeof(addr->v6) : sizeof(addr->v4);
}

/* ---------------------------------------------------------------- time */

int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * NSEC + ts.tv_nsec;
}

void sleep_until(int64_t realtime)
{
	struct timespec ts = { .tv_sec = realtime / NSEC, .tv_nsec = realtime % NSEC };

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void sleep_exactly(void)
{
	prctl(PR_SET_TIMERSLACK, 1);
}

/* ------------------------------------------------------------- sockets */

int open_socket(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (family == AF_INET6)
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
	return fd;
}

void set_option(int fd, int level, int name, int value, const char *what)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("setsockopt %s: %s", what, strerror(errno));
}

/* A namespace cannot raise the kernel's limit, but its root may pass it by. */
void set_buffer(int fd, bool sending, int bytes)
{
	int force = sending ? SO_SNDBUFFORCE : SO_RCVBUFFORCE;

	if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)))
		set_option(fd, SOL_SOCKET, sending ? SO_SNDBUF : SO_RCVBUF, bytes,
			   sending ? "SO_SNDBUF" : "SO_RCVBUF");
}

void set_tos(int fd, int family, int value)
{
	if (family == AF_INET6)
		set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, value, "IPV6_TCLASS");
	else
		set_option(fd, IPPROTO_IP, IP_TOS, value, "IP_TOS");
}

void reset_on_close(int fd)
{
	struct linger now_please = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now_please, sizeof(now_please));
}

void raise_file_limit(int connections)
{
	struct rlimit limit = { (rlim_t)connections + 64, (rlim_t)connections + 64 };

	if (!setrlimit(RLIMIT_NOFILE, &limit) || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int zero_file(int64_t size)
{
	int fd = memfd_create("payload", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, size))
		die("payload: %s", strerror(errno));
	return fd;
}

/* ------------------------------------------------------------- records */

void open_records(struct record_file *file, const char *path)
{
	*file = (struct record_file){ .path = path, .block = malloc(RECORD_BLOCK) };
	if (!file->block)
		die("room for records: %s", strerror(errno));
	file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (file->fd < 0)
		die("%s: %s", path, strerror(errno));
}

static void write_block(struct record_file *file)
{
	size_t done = 0;

	while (done < file->used) {
		ssize_t n = write(file->fd, file->block + done, file->used - done);

		if (n <= 0)
			die("%s: %s", file->path, strerror(errno));
		done += (size_t)n;
	}
	file->used = 0;
}

void add_record(struct record_file *file, const void *record, size_t size)
{
	if (file->used + size > RECORD_BLOCK)
		write_block(file);
	memcpy(file->block + file->used, record, size);
	file->used += size;
}

void close_records(struct record_file *file)
{
	write_block(file);
	if (close(file->fd))
		die("%s: %s", file->path, strerror(errno));
}

/* ------------------------------------------------------------- threads */

char *map_stacks(int count, size_t size, bool populate)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : MAP_NORESERVE);
	char *stacks = mmap(NULL, (size_t)count * size, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (stacks == MAP_FAILED)
		die("stacks of %d threads: %s", count, strerror(errno));
	return stacks;
}

void start_thread(pthread_t *thread, void *stack, size_t size, void *(*body)(void *),
		  void *arg, int number)
{
	pthread_attr_t attr;
	int error;

	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stack, size))
		die("the stack of thread %d is not taken", number);
	error = pthread_create(thread, &attr, body, arg);
	if (error)
		die("cannot start thread %d: %s", number, strerror(error));
	pthread_attr_destroy(&attr);
}
