// SPDX-License-Identifier: GPL-2.0
/*
 * tcpf-guest - what a virtual-time guest needs and a bare system lacks.
 *
 *   (as the first process)          mount what the run needs, then become
 *                                   the shell that runs log/guest.sh
 *   tcpf-guest at EPOCH OFFSET CMD  run CMD when EPOCH + OFFSET seconds come
 *   tcpf-guest poweroff             end the guest
 *
 * The guest's root is the host's, read-only. The run directory is the
 * working directory of the kernel on the host: naming it /proc/self/cwd keeps
 * paths off the kernel's command line and makes every character in them legal.
 * mount(2) is called here because mount(8) no longer passes such options on.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RUN_DIRECTORY	"/proc/self/cwd"
#define PROGRAMS	RUN_DIRECTORY "/.programs"
#define SCRIPT		"/run/out/log/guest.sh"
#define NSEC		1000000000LL

static void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "tcpf-guest: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(1);
}

static void attach(const char *type, const char *at, const char *data)
{
	if (mkdir(at, 0755) && errno != EEXIST)
		die("cannot make %s", at);
	if (mount(type, at, type, 0, data))
		die("cannot mount %s on %s", type, at);
}

static int init(void)
{
	char *shell[] = { "/bin/sh", SCRIPT, NULL };
	char *environment[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

	attach("proc", "/proc", NULL);
	attach("sysfs", "/sys", NULL);
	attach("devtmpfs", "/dev", NULL);
	attach("tmpfs", "/run", NULL);
	attach("hostfs", "/run/out", RUN_DIRECTORY);
	attach("hostfs", "/run/bin", PROGRAMS);
	if (mkdir("/run/netns", 0755))
		die("cannot make /run/netns");
	execve(shell[0], shell, environment);
	die("cannot run %s", SCRIPT);
	return 1;
}

/* Decimal seconds to nanoseconds without the rounding of a double. */
static long long nanoseconds(const char *text)
{
	long long seconds = 0, ns = 0, unit = NSEC;
	const char *c = text;

	for (; *c >= '0' && *c <= '9' && seconds < NSEC * 9; c++)
		seconds = seconds * 10 + (*c - '0');
	if (*c == '.')
		for (c++; *c >= '0' && *c <= '9' && unit > 1; c++)
			ns += (*c - '0') * (unit /= 10);
	if (c == text || *c) {
		errno = EINVAL;
		die("'%s' is not a number of seconds", text);
	}
	return seconds * NSEC + ns;
}

static int run_at(char **argv)
{
	long long at = nanoseconds(argv[0]) + nanoseconds(argv[1]);
	struct timespec ts = { .tv_sec = at / NSEC, .tv_nsec = at % NSEC };

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
	execvp(argv[2], argv + 2);
	die("cannot run %s", argv[2]);
	return 1;
}

int main(int argc, char **argv)
{
	if (getpid() == 1 && argc == 1)
		return init();
	if (argc >= 5 && !strcmp(argv[1], "at"))
		return run_at(argv + 2);
	if (argc == 2 && !strcmp(argv[1], "poweroff")) {
		sync();
		reboot(RB_POWER_OFF);
		die("cannot power off");
	}
	fprintf(stderr, "usage: tcpf-guest at EPOCH OFFSET COMMAND [ARG...]\n"
			"       tcpf-guest poweroff\n");
	return 2;
}
