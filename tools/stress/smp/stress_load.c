// SPDX-License-Identifier: GPL-2.0
/* The processes of the load: sinks, floods, and loops of commands. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

#define MAX_PROCESSES	256
#define MAX_BATCH	32	/* commands */
#define LOOPS_END	120	/* seconds within which every loop finishes its command */

static struct process {
	pid_t pid;
	enum when when;
} processes[MAX_PROCESSES];
static unsigned int n_processes;

static bool same_process(const struct step *a, const struct step *b)
{
	return a->when == b->when && !strcmp(a->name, b->name);
}

/*
 * Carry out step `first` and those after it, of the same process, that fit into one batch with
 * it. Returns the number of the step that comes next.
 */
static unsigned int carry_out(struct scenario *s, unsigned int first, uint64_t *random)
{
	static struct command commands[MAX_BATCH];
	struct step *steps[MAX_BATCH];
	unsigned int n = 0, next;
	int64_t start;

	for (next = first; next < s->n_steps && n < MAX_BATCH; next++) {
		struct step *step = &s->steps[next];

		if (!same_process(step, &s->steps[first]))
			continue;
		if (n && !same_batch(s->steps[first].text, step->text))
			break;
		commands[n].refused = false;
		resolve(step->text, random, commands[n].text, MAX_LINE);
		steps[n++] = step;
	}
	start = monotonic();
	if (same_batch(commands[0].text, commands[0].text))
		run_batch(commands, n);
	else
		run_command(&commands[0]);
	for (unsigned int i = 0; i < n; i++) {
		steps[i]->done += !commands[i].refused;
		steps[i]->refused += commands[i].refused;
		steps[i]->spent += (monotonic() - start) / n;
		if (commands[i].refused)
			memcpy(steps[i]->reply, commands[i].reply, MAX_REPLY);
	}
	return next;
}

/* Setup and teardown: every step must succeed. False if one has not. */
bool carry_out_all(struct scenario *s, enum when when)
{
	uint64_t random = s->seed;
	bool all = true;

	for (unsigned int i = 0; i < s->n_steps;)
		i = s->steps[i].when == when ? carry_out(s, i, &random) : i + 1;
	end_batches();
	for (unsigned int i = 0; i < s->n_steps; i++) {
		if (s->steps[i].when != when || !s->steps[i].refused)
			continue;
		complain("%s: %s", s->steps[i].text, s->steps[i].reply);
		all = false;
	}
	return all;
}

/* Repeat the lines that have the name of the first one, in turn, until the load ends. */
static void repeat(struct scenario *s, unsigned int first, uint64_t random)
{
	for (;;) {
		unsigned int i = first;

		while (i < s->n_steps) {
			if (!same_process(&s->steps[i], &s->steps[first])) {
				i++;
				continue;
			}
			if (s->stopping) {
				end_batches();
				_exit(0);
			}
			i = carry_out(s, i, &random);
		}
	}
}

static void run(struct scenario *s, unsigned int number)
{
	struct step *step = &s->steps[number];
	uint64_t random = (s->seed << 16) + number + 1;

	for (int i = 0; i < 16; i++)
		draw(&random);	/* the seeds of two processes differ in few bits */
	if (step->when == SINK)
		sink(step);
	if (step->when == FLOOD)
		flood(step, random);
	setpriority(PRIO_PROCESS, 0, -10);
	repeat(s, number, random);
}

static bool begins_process(const struct scenario *s, unsigned int number)
{
	const struct step *step = &s->steps[number];

	for (unsigned int i = 0; step->when == LOOP && i < number; i++)
		if (same_process(&s->steps[i], step))
			return false;
	return step->when != SETUP && step->when != TEARDOWN;
}

void start_load(struct scenario *s)
{
	for (unsigned int i = 0; i < s->n_steps; i++) {
		pid_t pid;

		if (!begins_process(s, i))
			continue;
		if (n_processes == MAX_PROCESSES)
			die("scenario: more than %d processes", MAX_PROCESSES);
		pid = fork();
		if (pid < 0)
			die("fork: %m");
		if (!pid)
			run(s, i);
		processes[n_processes++] = (struct process){ pid, s->steps[i].when };
	}
}

/* A loop that does not come back has a command that the kernel does not finish. */
static void await_loop(pid_t pid, int64_t until)
{
	while (!waitpid(pid, NULL, WNOHANG)) {
		if (monotonic() > until)
			die("a command has not ended after %d s", LOOPS_END);
		nanosleep(&(struct timespec){ .tv_nsec = NSEC / 100 }, NULL);
	}
}

/* End the loops between two commands, under traffic; then the traffic. */
void stop_load(struct scenario *s)
{
	int64_t until = monotonic() + LOOPS_END * NSEC;

	s->stopping = true;
	for (unsigned int i = 0; i < n_processes; i++)
		if (processes[i].when == LOOP)
			await_loop(processes[i].pid, until);
	for (unsigned int i = 0; i < n_processes; i++) {
		if (processes[i].when == LOOP)
			continue;
		kill(processes[i].pid, SIGKILL);
		waitpid(processes[i].pid, NULL, 0);
	}
}
