/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the modules build for, 6.1 to 7.3: the only place that asks
 * what a kernel has.
 */
#ifndef COMPAT_H
#define COMPAT_H

#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/version.h>
#include <net/act_api.h>
#include <net/pkt_sched.h>
#include <net/rtnetlink.h>

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

/* 6.13: one function makes a timer; 6.15 has no other. */
#if KERNEL_VERSION(6, 13, 0) > LINUX_VERSION_CODE
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* 6.15: newlink() has its arguments in a structure. compat_NAME is NAME in the kernel's form. */
#if KERNEL_VERSION(6, 15, 0) > LINUX_VERSION_CODE
#define COMPAT_NEWLINK(name)								\
static int compat_##name(struct net *net, struct net_device *dev, struct nlattr *tb[],	\
			 struct nlattr *data[], struct netlink_ext_ack *extack)		\
{											\
	return name(net, dev, tb, data, extack);					\
}
#else
#define COMPAT_NEWLINK(name)								\
static int compat_##name(struct net_device *dev, struct rtnl_newlink_params *params,	\
			 struct netlink_ext_ack *extack)				\
{											\
	return name(rtnl_newlink_link_net(params), dev, params->tb, params->data, extack); \
}
#endif

#endif /* COMPAT_H */
