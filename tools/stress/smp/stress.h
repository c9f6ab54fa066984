/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The first process of a guest that wears kernel modules down, and its parts.
 *
 * stress.c           mounts, the order of things, the journal
 * stress_load.c      the processes of the load
 * stress_scenario.c  the scenario: one instruction on a line
 * stress_command.c   one command, a program in a namespace or a word of our own; many of ip and tc
 * stress_flood.c     traffic, one process each, pinned to a processor: TCP, packets that no TCP
 *                    would send, and where it ends
 */
#ifndef SMP_STRESS_H
#define SMP_STRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define MAX_STEPS	512
#define MAX_WORDS	64
#define MAX_LINE	1024
#define MAX_REPLY	160
#define NSEC		1000000000LL

enum when { SETUP, SINK, FLOOD, LOOP, TEARDOWN };

/* One line of the scenario and what became of it; in memory that all processes share. */
struct step {
	enum when when;
	char name[32];		/* the loop it belongs to, the processor of a flood */
	char text[MAX_LINE];	/* node and command, alternatives unresolved */
	uint64_t done;		/* commands that succeeded, packets, connections */
	uint64_t refused;	/* commands with another status than 0 */
	uint64_t bytes;
	uint64_t spent;		/* ns on commands */
	char reply[MAX_REPLY];	/* the last refused command's first line */
};

/* A step with its alternatives chosen, and what became of it. */
struct command {
	char text[MAX_LINE];
	bool refused;
	char reply[MAX_REPLY];
};

struct scenario {
	unsigned int seconds;
	uint64_t seed;
	volatile bool stopping;
	unsigned int n_steps;
	struct step steps[MAX_STEPS];
};

/* Marsaglia's xorshift64: repeatable, one state for each process. */
static inline uint32_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 32;
}

/* stress.c */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int64_t monotonic(void);

/* stress_load.c */
bool carry_out_all(struct scenario *s, enum when when);
void start_load(struct scenario *s);
void stop_load(struct scenario *s);

/* stress_scenario.c */
void read_scenario(const char *path, struct scenario *s);
void resolve(const char *text, uint64_t *random, char *out, size_t size);
int split(char *text, char **words);

/* stress_command.c */
void enter_node(const char *node);
void run_command(struct command *command);
bool same_batch(const char *a, const char *b);
void run_batch(struct command *commands, unsigned int n);
void end_batches(void);

/* stress_flood.c */
void flood(struct step *step, uint64_t random) __attribute__((noreturn));
void sink(struct step *step) __attribute__((noreturn));

#endif /* SMP_STRESS_H */
