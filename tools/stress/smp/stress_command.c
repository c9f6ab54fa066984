// SPDX-License-Identifier: GPL-2.0
/*
 * One command: a program in a network namespace, or a word of our own.
 *
 *   load NAME                    a module from /modules
 *   unload NAME SECONDS          as soon as nothing uses it, within so many seconds
 *   reload NAME SECONDS          unload it so, and load it again
 *   pause MS                     let traffic pass
 *   write FILE TEXT              a kernel parameter, which may be its namespace's own
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

#define NODES "/run/netns/"

/* "-" is the namespace that the process is in already. */
void enter_node(const char *node)
{
	char path[64];
	int fd;

	if (!strcmp(node, "-"))
		return;
	snprintf(path, sizeof(path), NODES "%s", node);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET)) {
		fprintf(stderr, "%s: %m\n", path);
		_exit(127);
	}
	close(fd);
}

static int load_module(const char *name)
{
	char path[64];
	int error = 0;
	int fd;

	snprintf(path, sizeof(path), "/modules/%s.ko", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		error = errno;
	if (fd >= 0)
		close(fd);
	return error;
}

static int write_file(char **words)
{
	int fd = open(words[1], O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, words[2], strlen(words[2])) > 0)
		return 0;
	fprintf(stderr, "%s: %m\n", words[1]);
	return 1;
}

static int pause_for(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
	return 0;
}

static int unload_module(const char *name, const char *seconds)
{
	int64_t until = monotonic() + strtol(seconds, NULL, 10) * NSEC;

	while (syscall(SYS_delete_module, name, O_NONBLOCK)) {
		if (errno != EAGAIN || monotonic() > until)
			return errno;
		pause_for(5);
	}
	return 0;
}

/* What was loaded before can be loaded again. */
static int reload_module(const char *name, const char *seconds)
{
	int busy = unload_module(name, seconds);
	int error = busy ? 0 : load_module(name);

	if (error)
		complain("cannot load %s again: %s", name, strerror(error));
	return busy ?: error;
}

/* Carry out a word of our own; -1 if it is none. */
static int own_word(char **words)
{
	if (!strcmp(words[0], "load"))
		return load_module(words[1]);
	if (!strcmp(words[0], "unload"))
		return unload_module(words[1], words[2]);
	if (!strcmp(words[0], "reload"))
		return reload_module(words[1], words[2]);
	if (!strcmp(words[0], "pause"))
		return pause_for(strtol(words[1], NULL, 10));
	return -1;
}

/* Start a program in a node; input -1 is no input. */
pid_t start_program(const char *node, char **words, int input, int errors)
{
	pid_t pid = fork();
	int null;

	if (pid < 0)
		die("fork: %m");
	if (pid)
		return pid;
	null = open("/dev/null", O_RDWR);
	dup2(input < 0 ? null : input, 0);
	dup2(null, 1);
	dup2(errors, 2);
	enter_node(node);
	if (!strcmp(words[0], "write"))
		_exit(write_file(words));
	execvp(words[0], words);
	fprintf(stderr, "%s: %m\n", words[0]);
	_exit(127);
}

/* Run a program in a node to its end. */
static int run_program(const char *node, char **words, int errors)
{
	int status;
	pid_t pid = start_program(node, words, -1, errors);

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %m");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int memory_file(void)
{
	int fd = memfd_create("stress", MFD_CLOEXEC);

	if (fd < 0)
		die("memfd_create: %m");
	return fd;
}

void refuse(struct command *command, const char *reply)
{
	command->refused = true;
	snprintf(command->reply, sizeof(command->reply), "%s", reply);
}

void run_command(struct command *command)
{
	char text[MAX_LINE], reply[MAX_REPLY] = "", *words[MAX_WORDS];
	int status, errors;

	snprintf(text, sizeof(text), "%s", command->text);
	if (split(text, words) < 2)
		die("scenario: '%s' is not NODE COMMAND", command->text);
	status = own_word(words + 1);
	if (status > 0)
		refuse(command, strerror(status));
	if (status >= 0)
		return;
	errors = memory_file();
	if (run_program(words[0], words + 1, errors)) {
		if (pread(errors, reply, sizeof(reply) - 1, 0) < 0)
			die("pread: %m");
		reply[strcspn(reply, "\n")] = '\0';
		refuse(command, reply);
	}
	close(errors);
}
