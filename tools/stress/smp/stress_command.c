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
static pid_t start_program(const char *node, char **words, int input, int errors)
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

static void refuse(struct command *command, const char *reply)
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

/*
 * ip and tc are started once and told their commands, line by line: under emulation starting them
 * costs a hundred times more than what they do.
 *
 * After the commands comes one that they do not know. Of each that fails they say "Command failed
 * -:LINE", after the reason: when they have said it of that last one, the others are done.
 */

#define UNKNOWN "end-of-batch"

/* The one that is running; a namespace that is to go must have no process in it. */
static struct session {
	char who[64];		/* node and program */
	pid_t pid;
	FILE *input, *errors;
	unsigned int lines;	/* told so far */
} session;

/* The length of "NODE PROGRAM ". */
static size_t who_length(const char *text)
{
	size_t n = strcspn(text, " ") + 1;

	return n + strcspn(text + n, " ") + 1;
}

bool same_batch(const char *a, const char *b)
{
	size_t n = who_length(a);

	return !strncmp(a, b, n) && (!strncmp(a + n - 4, " ip ", 4) || !strncmp(a + n - 4, " tc ", 4));
}

void end_batches(void)
{
	if (!session.pid)
		return;
	fclose(session.input);
	fclose(session.errors);
	while (waitpid(session.pid, NULL, 0) < 0 && errno == EINTR)
		;
	session.pid = 0;
}

static void begin_session(const char *text)
{
	char *arguments[] = { NULL, "-s", "-d", "-force", "-batch", "-", NULL };
	char words[64], *node, *rest = words;
	int input[2], errors[2];

	snprintf(session.who, sizeof(session.who), "%.*s", (int)who_length(text), text);
	strcpy(words, session.who);
	node = strsep(&rest, " ");
	arguments[0] = strsep(&rest, " ");
	if (pipe2(input, O_CLOEXEC) || pipe2(errors, O_CLOEXEC))
		die("pipe: %m");
	session.pid = start_program(node, arguments, input[0], errors[1]);
	close(input[0]);
	close(errors[1]);
	session.input = fdopen(input[1], "w");
	session.errors = fdopen(errors[0], "r");
	session.lines = 0;
}

/* Read why commands have failed, up to the unknown one. False if the program has ended before. */
static bool read_failures(struct command *commands, unsigned int n)
{
	char line[512], why[MAX_REPLY] = "";
	unsigned int number, first = session.lines - n;

	while (fgets(line, sizeof(line), session.errors)) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "Command failed -:%u", &number) != 1) {
			if (!why[0])
				snprintf(why, sizeof(why), "%.*s", MAX_REPLY - 1, line);
			continue;
		}
		if (number == session.lines)
			return true;
		if (number < first || number >= session.lines)
			die("%s: %s, after %u lines", session.who, line, session.lines);
		refuse(&commands[number - first], why);
		why[0] = '\0';
	}
	refuse(&commands[n - 1], why);
	return false;
}

void run_batch(struct command *commands, unsigned int n)
{
	if (session.pid && !same_batch(commands[0].text, session.who))
		end_batches();
	if (!session.pid)
		begin_session(commands[0].text);
	for (unsigned int i = 0; i < n; i++)
		fprintf(session.input, "%s\n", commands[i].text + who_length(commands[i].text));
	fprintf(session.input, UNKNOWN "\n");
	session.lines += n + 1;
	if (fflush(session.input))
		complain("%s: %m", session.who);
	if (!read_failures(commands, n))
		end_batches();
}
