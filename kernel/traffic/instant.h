/* SPDX-License-Identifier: GPL-2.0 */
/*
 * instant: what the programs that make traffic share - instants, words of the
 * command line, sockets, threads and errors.
 *
 * Instants are seconds after an epoch (a CLOCK_REALTIME second that every node
 * of the testbed has agreed on); inside, all time is whole nanoseconds.
 */
#ifndef TRAFFIC_INSTANT_H
#define TRAFFIC_INSTANT_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NSEC		((int64_t)1000000000)
#define MAX_SAMPLES	64
#define OUTPUT_BUFFER	(256 * 1024)

/* The name that errors begin with; every program defines its own. */
extern const char program_name[];

/* An instant at which something is to be read, and what that is called. */
struct sample {
	const char *label;
	int64_t at;		/* ns after the epoch */
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/*
 * A file of binary records, little-endian, written in large blocks.  One
 * thread at a time may add to it.
 */
struct record_file {
	const char *path;	/* NULL: none */
	int fd;
	size_t used;
	char *block;
};

/* Prints an error and ends the program with status 2. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Decimal seconds to nanoseconds, exactly: a double of 10^9 s is 10^-7 s wide. */
int64_t parse_seconds(const char *text, const char *what);
/* A whole number from 0 to @max. */
int64_t parse_number(const char *text, const char *what, int64_t max);
int parse_count(const char *text, const char *what, int max);
/* LABEL=SECONDS[,...], in order, at most MAX_SAMPLES; returns how many. @text is cut up. */
int parse_samples(char *text, struct sample *samples);
/* An IPv4 or IPv6 address, port 0; any.sa_family of one that was never parsed is 0. */
union address parse_address(const char *text, const char *what);

/* The wildcard address of this family, port 0. */
union address any_address(int family);
void set_port(union address *addr, int port);
int port_of(const union address *addr);
socklen_t address_length(const union address *addr);

int64_t now(void);			/* ns, CLOCK_REALTIME */
void sleep_until(int64_t realtime);	/* ns, CLOCK_REALTIME */
/* From now on sleeps of this thread end at the instant, not up to 50 us later. */
void sleep_exactly(void);

/* A socket of this type for addresses of this family; IPv6 alone if that is the family. */
int open_socket(int family, int type);
void set_option(int fd, int level, int name, int value, const char *what);
/* The send buffer or the receive buffer, beyond the kernel's limit where that may be. */
void set_buffer(int fd, bool sending, int bytes);
/* TOS of IPv4, traffic class of IPv6. */
void set_tos(int fd, int family, int value);
/* Closed, or left by the program, the connection is reset: nothing is sent again after that. */
void reset_on_close(int fd);
/* As root, room for so many connections and what else is open; else what one may have. */
void raise_file_limit(int connections);

/* A descriptor of @size zero bytes for sendfile(). */
int zero_file(int64_t size);

void open_records(struct record_file *file, const char *path);
void add_record(struct record_file *file, const void *record, size_t size);
void close_records(struct record_file *file);

/* Memory for @count stacks of @size bytes; @populate: it faults on nothing later. */
char *map_stacks(int count, size_t size, bool populate);
/* Starts @body(@arg) with a stack of its own; @number is for an error. */
void start_thread(pthread_t *thread, void *stack, size_t size, void *(*body)(void *),
		  void *arg, int number);

#endif /* TRAFFIC_INSTANT_H */
