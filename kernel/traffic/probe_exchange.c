// SPDX-License-Identifier: GPL-2.0
/* probe_exchange.c: closed loops of request and response, and who answers. */
#define _GNU_SOURCE
#include "probe.h"
#include "stream.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK		0x7ffff000	/* the most one sendfile or recv takes */
#define THREAD_STACK	(16 * 1024)
#define MAX_ANSWERERS	4096
/* In virtual time what fails at once would fail for ever at the same instant. */
#define PAUSE		(NSEC / 10)

enum state { FINISHED, CUT_OFF, FAILED, STATES };

struct record {
	uint32_t flow;
	uint32_t state;
	int64_t start_ns;	/* after the epoch */
	int64_t end_ns;
};

static_assert(sizeof(struct record) == 24, "struct record has no padding");

/* What a request begins with, little-endian. */
struct lengths {
	uint64_t request;	/* these 16 bytes included */
	uint64_t response;
};

struct flow {
	struct stream stream;
	struct record current;
	bool underway;
	int fd;			/* -1: no connection */
	pthread_t thread;
};

static struct flow *flows;
static struct record_file file;
static int64_t counts[STATES];
static int payload_fd, listener;
static char *stacks;
/* Of records and of what each flow is at; taken for good when the time is up. */
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;

/* Returns 0, or -1 if the connection failed. */
static int send_zeros(int fd, uint64_t bytes)
{
	while (bytes) {
		off_t offset = 0;
		ssize_t n = sendfile(fd, payload_fd, &offset, bytes < CHUNK ? bytes : CHUNK);

		if (n <= 0)
			return -1;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* Returns 0, or -1 if the connection failed or ended. */
static int discard(int fd, uint64_t bytes)
{
	while (bytes) {
		ssize_t n = recv(fd, NULL, bytes < CHUNK ? bytes : CHUNK,
				 MSG_TRUNC | MSG_WAITALL);

		if (n <= 0)
			return -1;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* ----------------------------------------------------------------- ask */

/* In real time a response may come between the end and the last look at the books. */
static void keep(struct record r)
{
	if (r.end_ns > cfg.until) {
		r.end_ns = cfg.until;
		r.state = CUT_OFF;
	}
	counts[r.state]++;
	if (cfg.records)
		add_record(&file, &r, sizeof(r));
}

static void begin_exchange(struct flow *f)
{
	pthread_mutex_lock(&books);
	f->current.start_ns = now() - cfg.epoch;
	f->underway = f->current.start_ns < cfg.until;
	pthread_mutex_unlock(&books);
	while (!f->underway)
		pause();	/* the time is up */
}

static void end_exchange(struct flow *f, enum state state)
{
	pthread_mutex_lock(&books);
	f->current.end_ns = now() - cfg.epoch;
	f->current.state = state;
	f->underway = false;
	keep(f->current);
	pthread_mutex_unlock(&books);
}

static int connect_flow(struct flow *f)
{
	f->fd = open_socket(cfg.addr.any.sa_family, SOCK_STREAM);
	return connect(f->fd, &cfg.addr.any, address_length(&cfg.addr));
}

static void close_flow(struct flow *f)
{
	int fd = f->fd;

	f->fd = -1;
	close(fd);
}

/* Returns 0, or -1 if the connection failed. */
static int exchange(int fd)
{
	struct {
		struct lengths lengths;
		char more[1024];
	} head = { .lengths = { (uint64_t)cfg.request, (uint64_t)cfg.response } };
	uint64_t first = (uint64_t)cfg.request, rest = 0;

	if (first > sizeof(head)) {
		first = sizeof(head);
		rest = (uint64_t)cfg.request - first;
	}
	if (send(fd, &head, first, rest ? MSG_MORE : 0) != (ssize_t)first)
		return -1;
	if (send_zeros(fd, rest))
		return -1;
	return discard(fd, (uint64_t)cfg.response);
}

/* The handshake of a connection for all exchanges is part of none; false if it failed. */
static bool connect_for_all(struct flow *f)
{
	if (!cfg.reuse || f->fd >= 0)
		return true;
	begin_exchange(f);
	if (connect_flow(f))
		return false;
	pthread_mutex_lock(&books);
	f->underway = false;
	pthread_mutex_unlock(&books);
	return true;
}

/* Returns whether the response came. */
static bool ask_once(struct flow *f)
{
	int64_t think = 0;

	if (cfg.think)
		think = (int64_t)stream_exponential(&f->stream, (double)cfg.think);
	if (think)
		sleep_until(cfg.epoch + f->current.end_ns + think);
	begin_exchange(f);
	if (!cfg.reuse && connect_flow(f))
		return false;
	return !exchange(f->fd);
}

static void *flow_loop(void *arg)
{
	struct flow *f = arg;

	f->current.end_ns = cfg.from;
	sleep_until(cfg.epoch + cfg.from);
	for (;;) {
		bool answered = connect_for_all(f) && ask_once(f);

		end_exchange(f, answered ? FINISHED : FAILED);
		if (!answered || !cfg.reuse)
			close_flow(f);
		if (!answered)
			sleep_until(cfg.epoch + f->current.end_ns + PAUSE);
	}
	return NULL;
}

static void finish_records(void)
{
	for (int i = 0; i < cfg.flows; i++) {
		struct flow *f = &flows[i];

		if (f->underway) {
			f->current.end_ns = INT64_MAX;
			keep(f->current);
		}
		if (f->fd >= 0)
			reset_on_close(f->fd);
	}
	if (cfg.records)
		close_records(&file);
	printf("{\"event\":\"end\",\"finished\":%lld,\"cut_off\":%lld,\"failed\":%lld}\n",
	       (long long)counts[FINISHED], (long long)counts[CUT_OFF],
	       (long long)counts[FAILED]);
}

void ask(void)
{
	if (cfg.records)
		open_records(&file, cfg.records);
	flows = calloc((size_t)cfg.flows, sizeof(*flows));
	if (!flows)
		die("room for %d flows: %s", cfg.flows, strerror(errno));
	raise_file_limit(cfg.flows);
	payload_fd = zero_file(CHUNK);
	stacks = map_stacks(cfg.flows, THREAD_STACK, false);
	for (int i = 0; i < cfg.flows; i++) {
		struct flow *f = &flows[i];

		f->fd = -1;
		f->current.flow = (uint32_t)(cfg.first + i);
		stream_begin(&f->stream, (uint64_t)cfg.seed,
			     stream_number("ask") ^ f->current.flow);
		start_thread(&f->thread, stacks + (size_t)i * THREAD_STACK, THREAD_STACK,
			     flow_loop, f, cfg.first + i);
	}
	sleep_until(cfg.epoch + cfg.until);
	pthread_mutex_lock(&books);
	finish_records();
}

/* -------------------------------------------------------------- answer */

static atomic_int idle, answerers;
static atomic_llong n_answered;
static atomic_int connections[MAX_ANSWERERS];	/* descriptor + 1; 0: none */

/* Returns whether the peer may ask again. */
static bool answer_request(int fd)
{
	union {
		struct lengths lengths;
		char bytes[4096];
	} head;
	size_t have = 0;

	while (have < sizeof(head.lengths)) {
		ssize_t n = recv(fd, head.bytes + have, sizeof(head) - have, 0);

		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	if (head.lengths.request < have)
		return false;	/* not one of ours, or a request before the response */
	if (discard(fd, head.lengths.request - have) || send_zeros(fd, head.lengths.response))
		return false;
	n_answered++;
	return true;
}

static void *answer_loop(void *arg);

static void start_answerer(void)
{
	static pthread_t threads[MAX_ANSWERERS];
	int i = answerers++;

	if (i >= MAX_ANSWERERS)
		die("more than %d connections at a time", MAX_ANSWERERS);
	start_thread(&threads[i], stacks + (size_t)i * THREAD_STACK, THREAD_STACK,
		     answer_loop, &connections[i], i);
}

/* Whoever is the last to wait for a connection starts another one before it serves. */
static void *answer_loop(void *arg)
{
	atomic_int *mine = arg;

	for (;;) {
		int fd;

		idle++;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR)) {
			idle--;
			continue;
		}
		if (fd < 0)
			die("accept: %s", strerror(errno));
		*mine = fd + 1;
		if (!--idle)
			start_answerer();
		while (answer_request(fd))
			;
		*mine = 0;
		close(fd);
	}
	return NULL;
}

void answer(void)
{
	raise_file_limit(MAX_ANSWERERS);
	payload_fd = zero_file(CHUNK);
	stacks = map_stacks(MAX_ANSWERERS, THREAD_STACK, false);
	listener = open_socket(cfg.addr.any.sa_family, SOCK_STREAM);
	set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	if (bind(listener, &cfg.addr.any, address_length(&cfg.addr)) ||
	    listen(listener, MAX_ANSWERERS))
		die("listen on port %d: %s", cfg.port, strerror(errno));
	start_answerer();
	print_listening();
	sleep_until(cfg.epoch + cfg.until);
	for (int i = 0; i < MAX_ANSWERERS; i++)
		if (connections[i])
			reset_on_close(connections[i] - 1);
	printf("{\"event\":\"end\",\"answered\":%lld}\n", (long long)n_answered);
}
