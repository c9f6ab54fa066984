/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the links build for, 6.1 to 6.12, and what later ones
 * changed: the only place here that asks what a kernel has.
 */
#ifndef DRIVERS_COMPAT_H
#define DRIVERS_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/version.h>
#include <net/rtnetlink.h>

/* 6.13: one function makes a timer; 6.15 has no other. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* 6.15: newlink() has its arguments in a structure. compat_NAME is NAME in the kernel's form. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
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

#endif /* DRIVERS_COMPAT_H */
