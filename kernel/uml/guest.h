/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tcpf-guest: what its files share.
 *
 * guest.c          the guest's first process, and the words of the program
 * guest_plan.c     carries out the plan of a run, line by line
 * guest_program.c  programs: start, await, interrupt
 * guest_node.c     namespaces, kernel parameters, offloads and queues
 * guest_module.c   kernel modules, and the plugins of tc that go with them
 */
#ifndef UML_GUEST_H
#define UML_GUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define RUN_OUT		"/run/out"	/* the run directory */
#define RUN_BIN		"/run/bin"	/* the project's programs */
#define PLAN		"log/guest.plan"
#define NSEC		((int64_t)1000000000)

/* guest.c */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
int64_t nanoseconds(const char *text);
void sleep_until(int64_t realtime_ns);
void power_off(void) __attribute__((noreturn));

/* guest_plan.c */
void carry_out_plan(void) __attribute__((noreturn));
void fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* guest_program.c */
void run_program(const char *node, int input, const char *output, char **argv);
void start_program(const char *name, const char *node, const char *output,
		   const char *errors, char **argv);
void check_running(const char *name);
void finish_programs(char **names, int64_t seconds);
void stop_programs(char **names);

/* guest_node.c */
void enter_node(const char *node);
void write_sysctl(const char *key, const char *value);
void print_sysctl(FILE *to, const char *key);
uint32_t packets_queued(const char *device);
void switch_offloads(const char *device, bool on, char **features, FILE *to);

/* guest_module.c */
void load_module(const char *name);
const char *plugin_directory(void);

#endif /* UML_GUEST_H */
