/* SPDX-License-Identifier: GPL-2.0 */
/* The qdisc `frio`: FRED with IN and OUT packets, see net/frio.h. */
#ifndef UAPI_FRIO_H
#define UAPI_FRIO_H

#include <linux/types.h>

#include "precedence.h"

enum {
	TCA_FRIO_SHARE = __TCA_PRECEDENCE_OWN,	/* u8, enum tc_frio_share */
	TCA_FRIO_MANY_FLOWS,			/* u8, 0 or 1 */
	TCA_FRIO_MINQ,				/* u32, packets of avpkt bytes */
	TCA_FRIO_FLOWS,				/* u32 */
	__TCA_FRIO_MAX
};

#define TCA_FRIO_MAX	(__TCA_FRIO_MAX - 1)

enum tc_frio_share {
	TC_FRIO_SHARE_INSTANT,
	TC_FRIO_SHARE_AVERAGE,
};

#define TC_FRIO_MINQ_MAX	65535		/* packets */
#define TC_FRIO_AVPKT_MAX	65535		/* bytes */
#define TC_FRIO_FLOWS_MAX	1048576

struct tc_frio_class_xstats {
	struct tc_precedence_count enqueued;
	struct tc_precedence_count early;	/* dropped at random between min and max */
	struct tc_precedence_count forced;	/* dropped at or above max */
	struct tc_precedence_count strike;	/* dropped: their flow had too much queued */
	struct tc_precedence_count pdrop;	/* dropped for the limit */
	__u32 backlog;				/* bytes */
	__u32 average;				/* bytes: what the class is judged by */
	__u32 flows_now;			/* with packets in the view that judges the class */
	__u32 unused;
};

struct tc_frio_xstats {
	struct tc_frio_class_xstats in;
	struct tc_frio_class_xstats out;
	__u64 overflow;				/* packets that came of flows without a record */
	__u32 flows_now;			/* with a record */
	__u32 unused;
};

#endif /* UAPI_FRIO_H */
