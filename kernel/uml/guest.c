// SPDX-License-Identifier: GPL-2.0
/*
 * tcpf-guest - what a virtual-time guest needs and a bare system lacks.
 *
 *   (as the first process)          mount what the run needs, then carry out
 *                                   the plan in log/guest.plan
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

#include "guest.h"

#define RUN_DIRECTORY	"/proc/self/cwd"
#define PROGRAMS	RUN_DIRECTORY "/.programs"

void die(const char *fmt, ...)
{
	int error = errno;
	va_list ap;

	fprintf(stderr, "tcpf-guest: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, ": %s\n", strerror(error));
	exit(1);
}

void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	die("cannot power off");
}

static void attach(const char *type, const char *at, unsigned long flags, const char *data)
{
	if (mkdir(at, 0755) && errno != EEXIST)
		die("cannot make %s", at);
	if (mount(type, at, type, flags, data))
		die("cannot mount %s on %s", type, at);
}

static void mount_all(void)
{
	attach("proc", "/proc", 0, NULL);
	attach("sysfs", "/sys", 0, NULL);
	attach("devtmpfs", "/dev", 0, NULL);
	attach("tmpfs", "/run", 0, NULL);
	attach("hostfs", RUN_OUT, 0, RUN_DIRECTORY);
	attach("hostfs", RUN_BIN, MS_RDONLY, PROGRAMS);
	if (mkdir("/run/netns", 0755))
		die("cannot make /run/netns");
	if (chdir(RUN_OUT))
		die("cannot enter %s", RUN_OUT);
}

/* The programs of a plan see this environment and nothing of the host's. */
static void set_environment(void)
{
	const char *plugins = plugin_directory();

	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("LC_ALL", "C", 1);
	setenv("HOME", "/run", 1);
	setenv("TMPDIR", "/run", 1);
	if (plugins) {
		setenv("TC_LIB_DIR", plugins, 1);
		setenv("IP_LIB_DIR", plugins, 1);
	}
}

/* Decimal seconds to nanoseconds without the rounding of a double. */
int64_t nanoseconds(const char *text)
{
	int64_t seconds = 0, ns = 0, unit = NSEC;
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

void sleep_until(int64_t realtime_ns)
{
	struct timespec ts = {
		.tv_sec = realtime_ns / NSEC,
		.tv_nsec = realtime_ns % NSEC,
	};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

int main(int argc, char **argv)
{
	if (getpid() == 1) {
		mount_all();
		set_environment();
		carry_out_plan();
	}
	if (argc >= 5 && !strcmp(argv[1], "at")) {
		sleep_until(nanoseconds(argv[2]) + nanoseconds(argv[3]));
		execvp(argv[4], argv + 4);
		die("cannot run %s", argv[4]);
	}
	if (argc == 2 && !strcmp(argv[1], "poweroff"))
		power_off();
	fprintf(stderr, "usage: tcpf-guest at EPOCH OFFSET COMMAND [ARG...]\n"
			"       tcpf-guest poweroff\n");
	return 2;
}
