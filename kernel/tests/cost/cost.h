/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one packet costs in the qdiscs and markers, counted in user space.
 *
 * The modules and mainline's sch_red.c and sch_fifo.c are compiled as for the virtual-time kernel
 * and linked into a program: kernel structures, inline functions and all. stand_in.c is what they
 * call of the kernel on a packet's way; load.c sets them up by netlink and sends packets through;
 * main.c is the program, and what they would call elsewhere.
 *
 * This header is for both worlds, the kernel's and libc's.
 */
#ifndef TESTS_COST_COST_H
#define TESTS_COST_COST_H

/* What is asked for on the command line. */
struct cost_order {
	const char *kind;
	unsigned int flows;
	unsigned int warm;	/* packets before counting begins */
	unsigned int packets;	/* that are counted */
};

/* How it went. */
struct cost_result {
	unsigned long long dropped;	/* of the packets counted */
	unsigned long long in;		/* marked or sent as IN */
	unsigned long long backlog;	/* bytes, summed over the packets counted */
};

/* load.c; what callgrind counts happens in the functions called cost_counted_... */
void cost_run(const struct cost_order *order, struct cost_result *result);

/* main.c */
void *cost_allocate(unsigned long bytes);	/* zeroed; does not return without */
void cost_fail(const char *what) __attribute__((noreturn));

#endif /* TESTS_COST_COST_H */
