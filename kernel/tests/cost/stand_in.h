/* SPDX-License-Identifier: GPL-2.0 */
/* What load.c needs of stand_in.c. */
#ifndef TESTS_COST_STAND_IN_H
#define TESTS_COST_STAND_IN_H

#include <net/act_api.h>
#include <net/pkt_sched.h>

/* The modules' own init functions; what they register is found by its name. */
struct Qdisc_ops *cost_qdisc_ops(const char *kind);
struct tc_action_ops *cost_action_ops(const char *kind);

extern u64 cost_now;	/* ns, what ktime_get() gives */

#endif /* TESTS_COST_STAND_IN_H */
