/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the modules build for, 6.1 and 6.12:
 * the only place that asks what a kernel has.
 */
#ifndef SCHED_COMPAT_H
#define SCHED_COMPAT_H

#include <linux/module.h>
#include <net/act_api.h>
#include <net/pkt_sched.h>

/* 6.8: the alias by which tc has a qdisc's module loaded. */
#ifndef MODULE_ALIAS_NET_SCH
#define MODULE_ALIAS_NET_SCH(kind)	MODULE_ALIAS("sch_" kind)
#endif

/* 6.8: the same for actions. */
#ifndef MODULE_ALIAS_NET_ACT
#define MODULE_ALIAS_NET_ACT(kind)	MODULE_ALIAS("act_" kind)
#endif

/* 6.9: what an action's init() returns if it found the action that it was to bind. */
#ifndef ACT_P_BOUND
#define ACT_P_BOUND	0
#endif

#endif /* SCHED_COMPAT_H */
