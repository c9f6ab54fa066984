// SPDX-License-Identifier: GPL-2.0
/*
 * ip and tc are started once and told their commands, line by line: under emulation starting them
 * costs a hundred times more than what they do.
 *
 * After the commands comes one that they do not know. Of each that fails they say "Command failed
 * -:LINE", after the reason: when they have said it of that last one, the others are done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress.h"

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
