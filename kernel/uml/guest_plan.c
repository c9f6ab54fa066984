// SPDX-License-Identifier: GPL-2.0
/*
 * The plan of a run, carried out by the guest's first process.
 *
 * A shell would do, but each fork and each page fault is a stop of a process of
 * User-Mode Linux. Here programs are started by vfork from one small process,
 * and only where a program is what the plan asks for.
 *
 * log/guest.plan has one instruction per line, its words separated by tabs;
 * NODE "-" is the guest itself, OUTPUT and ERRORS "-" the console.
 *
 *   step TEXT                             what is done next, for messages
 *   run NODE OUTPUT ARG...                run a program to its end
 *   batch NODE COUNT ARG...               the same, with the COUNT lines that
 *                                         follow as its standard input
 *   module NAME                           load one of the project's modules
 *   sysctl NODE KEY VALUE                 set a kernel parameter
 *   sysctls NODE OUTPUT KEY...            print kernel parameters
 *   read NODE FILE OUTPUT                 copy a file
 *   read-if NODE FILE OUTPUT              the same, if this kernel has it
 *   offloads NODE OUTPUT DEVICE on|off FEATURE...  switch, and print what is so
 *   start NAME NODE OUTPUT ERRORS ARG...  start a program
 *   await NAME FILE SECONDS TEXT          until FILE of program NAME holds TEXT
 *   epoch SECONDS OUTPUT                  agree on the epoch, so long from now
 *   finish SECONDS NAME...                until the programs have ended, at
 *                                         most so long after the epoch
 *   drained NODE DEVICE SECONDS           until the device's queues are empty
 *   pass SECONDS                          let time pass
 *   stop NAME...                          interrupt programs, await their end
 *
 * {epoch} in an argument stands for the epoch in seconds. The first thing
 * that fails is written to log/failed, and the guest ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define MAX_WORDS	16384
#define LOOK_NS		(20 * 1000 * 1000)	/* between two looks at a file */
#define LOOK_QUEUE_NS	(250 * 1000 * 1000)	/* between two looks at a queue */

static char *next_line;		/* of the plan */
static const char *doing = "beginning";
static int64_t epoch;		/* CLOCK_REALTIME, ns */

void fail(const char *fmt, ...)
{
	FILE *to = fopen("log/failed", "w");
	va_list ap;

	if (to) {
		fprintf(to, "%s: ", doing);
		va_start(ap, fmt);
		vfprintf(to, fmt, ap);
		va_end(ap);
		fprintf(to, "\n");
		fclose(to);
	}
	power_off();
}

/* ------------------------------------------------------------------ time */

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * NSEC + ts.tv_nsec;
}

static void pass(int64_t ns)
{
	sleep_until(now() + ns);
}

static int open_output(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		fail("cannot write %s: %s", path, strerror(errno));
	return fd;
}

/* What is printed to it is written at its end: a system call per block, not per line. */
static FILE *open_printed(const char *path)
{
	FILE *to = fdopen(open_output(path), "w");

	if (!to)
		fail("cannot write %s: %s", path, strerror(errno));
	return to;
}

static void close_printed(FILE *to, const char *path)
{
	if (fclose(to))
		fail("cannot write %s: %s", path, strerror(errno));
}

/* ---------------------------------------------------------- instructions */

static void do_run(char **word)
{
	run_program(word[0], -1, word[1], word + 2);
}

static void do_batch(char **word)
{
	char *begin = next_line;
	int fd = memfd_create("batch", MFD_CLOEXEC);

	for (int lines = atoi(word[1]); lines > 0 && *next_line; lines--)
		next_line += strcspn(next_line, "\n") + 1;
	if (fd < 0 || write(fd, begin, (size_t)(next_line - begin)) < 0 ||
	    lseek(fd, 0, SEEK_SET))
		fail("batch: %s", strerror(errno));
	run_program(word[0], fd, "-", word + 2);
	close(fd);
}

static void do_module(char **word)
{
	load_module(word[0]);
}

static void do_sysctl(char **word)
{
	enter_node(word[0]);
	write_sysctl(word[1], word[2]);
}

static void do_sysctls(char **word)
{
	FILE *to = open_printed(word[1]);

	enter_node(word[0]);
	for (char **key = word + 2; *key; key++)
		print_sysctl(to, *key);
	close_printed(to, word[1]);
}

static void copy_file(char **word, bool optional)
{
	static char content[65536];
	ssize_t n;
	int fd, to;

	enter_node(word[0]);
	fd = open(word[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 && optional && errno == ENOENT)
		return;
	if (fd < 0)
		fail("cannot read %s: %s", word[1], strerror(errno));
	to = open_output(word[2]);
	while ((n = read(fd, content, sizeof(content))) > 0)
		if (write(to, content, (size_t)n) != n)
			fail("cannot write %s: %s", word[2], strerror(errno));
	if (n < 0)
		fail("cannot read %s: %s", word[1], strerror(errno));
	close(fd);
	close(to);
}

static void do_read(char **word)
{
	copy_file(word, false);
}

static void do_read_if(char **word)
{
	copy_file(word, true);
}

static void do_offloads(char **word)
{
	FILE *to = open_printed(word[1]);

	enter_node(word[0]);
	switch_offloads(word[2], !strcmp(word[3], "on"), word + 4, to);
	close_printed(to, word[1]);
}

static void do_start(char **word)
{
	start_program(word[0], word[1], word[2], word[3], word + 4);
}

static bool holds(const char *path, const char *text)
{
	char content[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, content, sizeof(content) - 1);

	if (fd >= 0)
		close(fd);
	content[n > 0 ? n : 0] = 0;
	return strstr(content, text);
}

static void do_await(char **word)
{
	int64_t until = now() + nanoseconds(word[2]);

	while (!holds(word[1], word[3])) {
		check_running(word[0]);
		if (now() > until)
			fail("%s did not say '%s' in %s within %s s", word[0], word[3],
			     word[1], word[2]);
		pass(LOOK_NS);
	}
}

static void do_epoch(char **word)
{
	int fd = open_output(word[1]);

	epoch = (now() / NSEC) * NSEC + nanoseconds(word[0]);
	dprintf(fd, "{\"epoch_ns\": %lld}\n", (long long)epoch);
	close(fd);
}

static void do_finish(char **word)
{
	finish_programs(word + 1, (epoch + nanoseconds(word[0]) - now()) / NSEC + 1);
}

static void do_drained(char **word)
{
	int64_t until = now() + nanoseconds(word[2]);

	enter_node(word[0]);
	do {
		if (now() > until)
			fail("the queue on %s is not empty after %s s", word[1], word[2]);
		pass(LOOK_QUEUE_NS);
	} while (packets_queued(word[1]));
}

static void do_pass(char **word)
{
	pass(nanoseconds(word[0]));
}

static void do_stop(char **word)
{
	stop_programs(word);
}

static const struct instruction {
	const char *name;
	int words;		/* at least so many */
	void (*carry_out)(char **word);
} instructions[] = {
	{ "run", 3, do_run },
	{ "batch", 3, do_batch },
	{ "module", 1, do_module },
	{ "sysctl", 3, do_sysctl },
	{ "sysctls", 3, do_sysctls },
	{ "read", 3, do_read },
	{ "read-if", 3, do_read_if },
	{ "offloads", 5, do_offloads },
	{ "start", 5, do_start },
	{ "await", 4, do_await },
	{ "epoch", 2, do_epoch },
	{ "finish", 2, do_finish },
	{ "drained", 3, do_drained },
	{ "pass", 1, do_pass },
	{ "stop", 1, do_stop },
};

/* ------------------------------------------------------------------ plan */

static char *read_plan(void)
{
	struct stat st;
	char *text;
	int fd = open(PLAN, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st))
		fail("cannot read %s: %s", PLAN, strerror(errno));
	text = malloc((size_t)st.st_size + 1);
	if (!text || read(fd, text, (size_t)st.st_size) != st.st_size)
		fail("cannot read %s whole", PLAN);
	text[st.st_size] = 0;
	close(fd);
	return text;
}

/* Replace every {epoch}; the few words that hold one are never freed. */
static char *with_epoch(char *word)
{
	char *at = strstr(word, "{epoch}"), *result;

	if (!at)
		return word;
	if (asprintf(&result, "%.*s%lld%s", (int)(at - word), word,
		     (long long)(epoch / NSEC), at + strlen("{epoch}")) < 0)
		fail("out of memory");
	return with_epoch(result);
}

static void carry_out(char *line)
{
	static char *word[MAX_WORDS + 1];
	int n = 0;

	for (char *w; (w = strsep(&line, "\t"));) {
		if (n == MAX_WORDS)
			fail("an instruction of more than %d words", MAX_WORDS);
		word[n++] = with_epoch(w);
	}
	word[n] = NULL;
	if (!strcmp(word[0], "step") && n == 2) {
		doing = word[1];
		return;
	}
	for (size_t i = 0; i < sizeof(instructions) / sizeof(*instructions); i++)
		if (!strcmp(word[0], instructions[i].name) && n > instructions[i].words) {
			instructions[i].carry_out(word + 1);
			return;
		}
	fail("'%s' with %d words is no instruction", word[0], n - 1);
}

void carry_out_plan(void)
{
	next_line = read_plan();
	while (*next_line) {
		char *line = next_line;
		size_t length = strcspn(line, "\n");

		next_line = line + length + (line[length] == '\n');
		line[length] = 0;
		if (length)
			carry_out(line);
	}
	close(open_output("log/finished"));
	power_off();
}
