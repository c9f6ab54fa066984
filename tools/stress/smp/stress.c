// SPDX-License-Identifier: GPL-2.0
/*
 * The first process of a guest that wears kernel modules down: traffic on all processors through
 * queues and markers, while other processes change, replace, delete, dump, unload and load them.
 *
 * It carries out /scenario (stress_scenario.c) and writes a journal to /dev/ttyS1:
 *
 *   progress SECONDS COMMANDS PACKETS
 *   failed WHAT                            of a process of the load, of setup or teardown
 *   state NAME VALUE                       of the kernel's own checks, after the teardown
 *   step NUMBER DONE REFUSED BYTES MS REPLY  for every line of the scenario, in its order
 *   end
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

#define JOURNAL		"/dev/ttyS1"
#define SCENARIO	"/scenario"
#define PATIENCE	4	/* times the load that was asked for */
#define KCSAN		"/sys/kernel/debug/kcsan"
#define LOCKDEP		"/proc/lockdep_stats"

static struct scenario *scenario;
static FILE *journal;

int64_t monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC + now.tv_nsec;
}

static void power_off(void)
{
	fprintf(journal, "end\n");
	fflush(journal);
	sync();
	reboot(RB_AUTOBOOT);	/* the emulator ends instead */
	_exit(1);
}

static void write_complaint(const char *fmt, va_list args)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, args);
	fprintf(journal, "failed %s\n", text);
	fflush(journal);
}

void complain(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	write_complaint(fmt, args);
	va_end(args);
}

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	write_complaint(fmt, args);
	va_end(args);
	if (getpid() == 1)
		power_off();
	_exit(1);
}

static void mount_all(void)
{
	static const struct {
		const char *type, *where;
	} mounts[] = {
		{ "proc", "/proc" },
		{ "sysfs", "/sys" },
		{ "debugfs", "/sys/kernel/debug" },
		{ "devtmpfs", "/dev" },
		{ "tmpfs", "/run" },
		{ "tmpfs", "/tmp" },
	};

	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		mkdir(mounts[i].where, 0755);
		if (mount(mounts[i].type, mounts[i].where, mounts[i].type, 0, NULL))
			die("mount %s: %m", mounts[i].where);
	}
}

/* The guest's memory of what happened, shared by all its processes. */
static void *shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("no memory: %m");
	return memory;
}

/* Hand on the lines of a file that contain one of the words; "a name: value" is "a name value". */
static void tell_state(const char *path, const char *const *words)
{
	char line[256];
	FILE *file = fopen(path, "r");

	if (!file)
		die("%s: %m", path);
	while (fgets(line, sizeof(line), file)) {
		for (int i = 0; words[i]; i++) {
			char *word = strstr(line, words[i]);

			if (!word)
				continue;
			word += strlen(words[i]);
			fprintf(journal, "state %s %s", words[i], word + strspn(word, ": "));
		}
	}
	fclose(file);
}

static void tell_progress(unsigned int elapsed)
{
	uint64_t commands = 0, packets = 0;

	for (unsigned int i = 0; i < scenario->n_steps; i++) {
		const struct step *step = &scenario->steps[i];

		if (step->when == LOOP)
			commands += step->done + step->refused;
		if (step->when == FLOOD)
			packets += step->done;
	}
	fprintf(journal, "progress %u %llu %llu\n", elapsed, (unsigned long long)commands,
		(unsigned long long)packets);
	fflush(journal);
}

static void tell_all(void)
{
	static const char *const lockdep[] = { "debug_locks", "max lock depth", NULL };
	static const char *const kcsan[] = { "enabled", "setup_watchpoints", "data_races", NULL };
	static const char *const memory[] = { "MemAvailable", "SUnreclaim", NULL };

	tell_state(LOCKDEP, lockdep);
	tell_state(KCSAN, kcsan);
	tell_state("/proc/meminfo", memory);
	for (unsigned int i = 0; i < scenario->n_steps; i++) {
		const struct step *step = &scenario->steps[i];

		fprintf(journal, "step %u %llu %llu %llu %llu %s\n", i,
			(unsigned long long)step->done, (unsigned long long)step->refused,
			(unsigned long long)step->bytes,
			(unsigned long long)step->spent / (NSEC / 1000), step->reply);
	}
}

/* Whether every line of the load has succeeded at least once. */
static bool all_done(void)
{
	for (unsigned int i = 0; i < scenario->n_steps; i++) {
		const struct step *step = &scenario->steps[i];

		if (!step->done && step->when != SETUP && step->when != TEARDOWN)
			return false;
	}
	return true;
}

/* As long as asked for; on a busy machine longer, until everything has happened. */
static void bear_load(void)
{
	int64_t start = monotonic(), elapsed = 0;
	int64_t least = scenario->seconds * NSEC, most = least * PATIENCE;

	start_load(scenario);
	while (elapsed < least || (elapsed < most && !all_done())) {
		tell_progress(elapsed / NSEC);
		sleep(1);
		elapsed = monotonic() - start;
	}
	stop_load(scenario);
}

int main(void)
{
	scenario = shared(sizeof(*scenario));
	journal = stderr;
	mount_all();
	journal = fopen(JOURNAL, "w");
	if (!journal)
		return 1;	/* the kernel says that its first process has gone */
	fcntl(fileno(journal), F_SETFD, FD_CLOEXEC);
	signal(SIGPIPE, SIG_IGN);
	setenv("PATH", "/bin", 1);
	setenv("TC_LIB_DIR", "/tc", 1);
	setenv("IP_LIB_DIR", "/tc", 1);
	read_scenario(SCENARIO, scenario);
	if (carry_out_all(scenario, SETUP)) {
		bear_load();
		carry_out_all(scenario, TEARDOWN);
		tell_all();
	}
	power_off();
}
