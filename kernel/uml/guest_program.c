// SPDX-License-Identifier: GPL-2.0
/*
 * Programs of a plan: started by vfork(2) in the namespace of their node,
 * waited for, interrupted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define MAX_PROGRAMS	16384

static struct program {
	char name[48];
	pid_t pid;
	bool ended;
	int status;
} programs[MAX_PROGRAMS];
static int n_programs;

static volatile sig_atomic_t overdue;

static void set_overdue(int signal_number)
{
	(void)signal_number;
	overdue = 1;
}

/* In the child of vfork: put a file in the place of a descriptor. */
static bool redirect(int to, const char *path)
{
	int fd;

	if (!strcmp(path, "-"))
		return true;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return fd >= 0 && dup2(fd, to) == to;
}

/*
 * Start a program in a node; input -1 is no input, output may be "-". This is
 * not posix_spawn(3), which sets the action of every signal: 128 system calls.
 */
static pid_t spawn(const char *node, int input, const char *output,
		   const char *errors, char **argv)
{
	static int nothing = -1, error;
	pid_t pid;

	enter_node(node);
	if (nothing < 0)
		nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	error = 0;
	pid = vfork();
	if (!pid) {
		if (dup2(input < 0 ? nothing : input, 0) == 0 &&
		    redirect(1, output) && redirect(2, errors))
			execvp(argv[0], argv);
		error = errno;	/* of the parent, whose memory this is */
		_exit(127);
	}
	if (pid < 0)
		error = errno;
	if (error)
		fail("cannot run %s: %s", argv[0], strerror(error));
	return pid;
}

/* Wait for any child; false if the deadline came first. */
static bool reap(pid_t *pid, int *status)
{
	do {
		*pid = waitpid(-1, status, 0);
		if (*pid > 0)
			return true;
	} while (errno == EINTR && !overdue);
	if (!overdue)
		fail("waiting: %s", strerror(errno));
	return false;
}

/* Wait for one child, remembering the ends of others. */
static bool await_end(pid_t wanted, int *status)
{
	pid_t pid;

	for (int i = 0; i < n_programs; i++)
		if (programs[i].pid == wanted && programs[i].ended) {
			*status = programs[i].status;
			return true;
		}
	do {
		if (!reap(&pid, status))
			return false;
		for (int i = 0; i < n_programs; i++)
			if (programs[i].pid == pid) {
				programs[i].ended = true;
				programs[i].status = *status;
			}
	} while (pid != wanted);
	return true;
}

static void check_status(const char *name, int status)
{
	if (WIFSIGNALED(status))
		fail("%s was killed by signal %d", name, WTERMSIG(status));
	if (WEXITSTATUS(status))
		fail("%s ended with status %d", name, WEXITSTATUS(status));
}

void run_program(const char *node, int input, const char *output, char **argv)
{
	pid_t pid = spawn(node, input, output, "-", argv);
	int status;

	await_end(pid, &status);
	check_status(argv[0], status);
}

static struct program *find(const char *name)
{
	for (int i = n_programs - 1; i >= 0; i--)
		if (!strcmp(programs[i].name, name))
			return &programs[i];
	fail("no program '%s' was started", name);
}

void start_program(const char *name, const char *node, const char *output,
		   const char *errors, char **argv)
{
	struct program *p = &programs[n_programs];

	if (n_programs == MAX_PROGRAMS)
		fail("more than %d programs", MAX_PROGRAMS);
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->pid = spawn(node, -1, output, errors, argv);
	n_programs++;
}

/* A program that is awaited ready must not have ended. */
void check_running(const char *name)
{
	struct program *p = find(name);
	int status;

	if (!p->ended && waitpid(p->pid, &status, WNOHANG) == p->pid) {
		p->ended = true;
		p->status = status;
	}
	if (!p->ended)
		return;
	check_status(name, p->status);
	fail("%s ended before it was ready", name);
}

/* Wait until programs have ended by themselves, at most so many seconds. */
void finish_programs(char **names, int64_t seconds)
{
	struct sigaction action = { .sa_handler = set_overdue };
	int status;

	sigaction(SIGALRM, &action, NULL);
	alarm(seconds > 0 ? (unsigned int)seconds : 1);
	for (; *names; names++) {
		if (!await_end(find(*names)->pid, &status))
			fail("%s had not ended after %lld s", *names, (long long)seconds);
		check_status(*names, status);
	}
	alarm(0);
}

void stop_programs(char **names)
{
	int status;

	for (char **name = names; *name; name++)
		kill(find(*name)->pid, SIGINT);
	for (char **name = names; *name; name++) {
		await_end(find(*name)->pid, &status);
		check_status(*name, status);
	}
}
