// SPDX-License-Identifier: GPL-2.0
/*
 * Print how many thousand times a second the time stamp counter of this machine counts. The
 * emulator hands it to the guest, which could find out only by an emulated timer: that fails on a
 * busy machine, and the guest would be left with a clock of whole milliseconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define NSEC	1000000000LL
#define MEASURE	(NSEC / 5)

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return time.tv_sec * NSEC + time.tv_nsec;
}

int main(void)
{
	uint64_t ticks = __rdtsc();
	int64_t start = now(), elapsed;

	do {
		elapsed = now() - start;
	} while (elapsed < MEASURE);
	printf("%llu\n", (unsigned long long)((__rdtsc() - ticks) * 1000000 / elapsed));
	return 0;
}
