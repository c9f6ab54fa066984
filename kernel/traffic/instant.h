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

/* Prints an error and ends the program with status 2. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Decimal seconds to nanoseconds, exactly: a double of 10^9 s is 10^-7 s wide. */
int64_t parse_seconds(const char *text, const char *what);
/* A whole number from 0 to @max. */
int64_t parse_number(const char *text, const char *what, int64_t max);
int parse_count(const char *text, const char *what, int max);
/* LABEL=SECONDS[,...], in order, at most MAX_SAMPLES; returns how many. @text is cut up. */
int parse_samples(char *text, struct sample *samples);
struct sockaddr_in parse_address(const char *text, const char *what);

int64_t now(void);			/* ns, CLOCK_REALTIME */
void sleep_until(int64_t realtime);	/* ns, CLOCK_REALTIME */

void set_option(int fd, int level, int name, int value, const char *what);
/* The send buffer or the receive buffer, beyond the kernel's limit where that may be. */
void set_buffer(int fd, bool sending, int bytes);
/* Closed, or left by the program, the connection is reset: nothing is sent again after that. */
void reset_on_close(int fd);
/* As root, room for so many connections and what else is open; else what one may have. */
void raise_file_limit(int connections);

/* Starts @body(@arg) with a stack of its own; @number is for an error. */
void start_thread(pthread_t *thread, void *stack, size_t size, void *(*body)(void *),
		  void *arg, int number);

#endif /* TRAFFIC_INSTANT_H */
