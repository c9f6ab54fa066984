/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* What is asked of a link of type csma, and read of it, over netlink. */
#ifndef UAPI_CSMA_H
#define UAPI_CSMA_H

#include <linux/types.h>

/*
 * IFLA_INFO_DATA of a link. The wire's are given with its first station alone; those that join by
 * IFLA_LINK have the wire's.
 */
enum {
	CSMA_UNSPEC,
	CSMA_RATE,		/* u32, Mbit/s: 10 or 100; of the wire */
	CSMA_PROPAGATION,	/* u32, ns between two stations; of the wire */
	CSMA_RING,		/* u32, frames between the queue and the wire */
	CSMA_SEED,		/* u64, of the wire's random numbers */
	CSMA_PAD,
	CSMA_ATTRIBUTES
};

/*
 * IFLA_INFO_XSTATS: of the station, then of its wire. What is on the wire at the moment counts when
 * it is over; until then the times add up to when it began.
 */
struct csma_xstats {
	__u64 collisions;
	__u64 deferred;		/* frames that found the wire busy */
	__u64 excessive;	/* frames given up after 16 collisions */
	__u64 busy;		/* ns, as are the next two: frames that arrived */
	__u64 contention;	/* collisions and jams */
	__u64 idle;
};

#define CSMA_MAX	(CSMA_ATTRIBUTES - 1)

#endif /* UAPI_CSMA_H */
