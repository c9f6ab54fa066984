// SPDX-License-Identifier: GPL-2.0
/* instant.c: see instant.h. */
#define _GNU_SOURCE
#include "instant.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

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

struct sockaddr_in parse_address(const char *text, const char *what)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, text, &addr.sin_addr) != 1)
		die("%s: '%s' is not an IPv4 address", what, text);
	return addr;
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

/* ------------------------------------------------------------- sockets */

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

/* ------------------------------------------------------------- threads */

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
